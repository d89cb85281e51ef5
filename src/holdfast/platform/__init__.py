"""The machine and the process that code runs in: time, threads, loops, secrets, the border to user code.

Never here: a rule about runs.
"""
