"""The steps of runs at work: an attempt for each that runs here, from its beginning to its end, for every kind of node.

Never here: what a step's code may do (operations), which runs are due (fleet).
"""
