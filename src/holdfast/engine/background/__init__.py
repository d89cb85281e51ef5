"""What goes on between runs: children, conversations, schedules, supervisors, money in doubt, the roll-up of costs.

Never here: finding out that it is time (fleet), the rule behind it (core).
"""
