"""The rules of a run, a module for each subject: what follows from a command, and when it is refused.

Never here: what a person is asked at a gate (people), folding an event (facts), the table of commands (decide).
"""
