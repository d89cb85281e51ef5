"""Python syntax for workflows: decorators that end in a core Graph and its handlers.

Workflow files in YAML end in the same (`actions`).

Never here: running anything.
"""
