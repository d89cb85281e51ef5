"""Capacity: connected workers, this process's shares of pools, and the line of steps that wait for a place.

Never here: how places are chosen (scheduling), what a step does there (steps).
"""
