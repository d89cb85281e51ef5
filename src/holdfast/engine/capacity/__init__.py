"""Where there is room: connected workers, this process's shares of pools, and who waits for its place.

Never here: how places are chosen (scheduling), what a step does there (steps).
"""
