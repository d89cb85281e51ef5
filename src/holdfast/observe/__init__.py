"""A process's health and metrics, for observers outside.

Never here: anything that work depends on.
"""
