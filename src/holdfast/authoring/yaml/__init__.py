"""Workflows in YAML: a subset of GitHub Actions' syntax, with extensions.

Never here: running anything.
"""
