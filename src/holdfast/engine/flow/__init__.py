"""A flow at work: its event loop, the operations and outcomes of that, and what it holds in memory while it waits.

Never here: what an operation does (operations), an attempt's beginning and end (steps).
"""
