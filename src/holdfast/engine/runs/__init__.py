"""The runs of this process: a mailbox for each, the way of a command to its commit, and what every process on a store has.

Never here: the code of a step (attempts, operations), finding runs that are due (fleet).
"""
