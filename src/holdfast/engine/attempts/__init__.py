"""One attempt of one step: its journal, where its code is in it, and what the attempt may use of its process.

Never here: what an operation does (operations), what a kind of node does (steps).
"""
