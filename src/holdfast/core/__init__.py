"""The rules of the game: what may happen in a run and what follows from it.

Pure: times and new ids come in as arguments. Never here: I/O, a clock, chance, `async`.
"""
