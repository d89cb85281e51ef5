"""The commands that start, follow, show and change runs and conversations."""
