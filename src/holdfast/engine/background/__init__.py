"""Work between runs: children, conversations, schedules, supervisors, money in doubt, the roll-up of costs.

Never here: noticing that it is time (fleet), the rule behind it (core).
"""
