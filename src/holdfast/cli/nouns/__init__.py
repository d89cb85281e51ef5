"""The commands of one noun each: gates, effects, budgets and so on. Never here: commands of runs (runs)."""
