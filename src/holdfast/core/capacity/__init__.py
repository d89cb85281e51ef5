"""How much there is of what is shared: pools that are lent to processes, lanes of a fleet, and estimates of what steps take.

Never here: what a run does when there is too little (rules).
"""
