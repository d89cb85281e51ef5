"""Calling models: what a request can cost at most, what it did cost, and the providers that answer it.

Never here: a run, a step, an event, a tool's execution. The engine is known only as a port.
"""
