"""Shared capacity: pools that are lent to processes, lanes of a fleet, and estimates of the use of steps.

Never here: what a run does when there is too little (rules).
"""
