"""Who gets which job: one structure in memory, told of jobs and of workers, that places what can be placed.

Never here: I/O, a clock, a task. It is rebuilt from the store and from what workers say, so nothing in it must last.
"""
