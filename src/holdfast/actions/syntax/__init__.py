"""Workflow files: `load` makes a Document of a file's text, or says everything that is wrong with it.

Never here: running anything.
"""
