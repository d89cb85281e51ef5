"""This process in a fleet: it finds runs that are due, leads a lane, takes what it is given, and knows when it is idle.

Never here: going on with a run (runs, steps).
"""
