"""How people write workflows: decorators in Python (and, later, YAML) that end in a core Graph and its handlers.

Never here: running anything.
"""
