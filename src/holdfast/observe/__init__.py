"""How a process tells the outside how it goes.

Never here: anything that work depends on.
"""
