"""Things of a tenant besides runs: schedules, conversations, supervisors, shared values, memories, scores, rules for tools.

Never here: an event of a run (facts), a table (stores).
"""
