"""A run as others see it: its status, the path that it took, its rows in the store, and the form in which those are kept.

Never here: a rule, how a row is shown to a person (service).
"""
