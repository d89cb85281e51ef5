"""A run as facts: what can be asked of it, what can have happened, and the state that is the fold of that.

Never here: refusing anything, what follows from an event (rules).
"""
