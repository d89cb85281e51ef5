"""Workflows in YAML: a subset of GitHub Actions' syntax, with extensions. `load` makes a Document of a file's text.

Never here: running anything.
"""
