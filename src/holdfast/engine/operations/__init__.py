"""The operations of a step's code, `ctx`: call models and tools, ask people, wait, read and write shared values, start
children.

Never here: the journal's own rules (attempts), when a step runs (steps).
"""
