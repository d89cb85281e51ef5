"""The rules of the game: what may happen in a run and what follows from it.

Pure: no I/O, no clock, no randomness, no `async`. Times and new ids come in as arguments.
"""
