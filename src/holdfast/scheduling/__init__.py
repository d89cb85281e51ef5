"""The placement of jobs on workers: one structure in memory, updated with jobs and workers, that places what can be placed.

Never here: I/O, a clock, a task. It is rebuilt from the store and from what workers say, so nothing in it must last.
"""
