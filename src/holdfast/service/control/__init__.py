"""The methods of an `Engine`, by subject, and the handle on a run: what people and programs may ask of runs.

Never here: how a run is driven (engine), an adapter, how an engine comes to be (compose), words of a command line (cli).
"""
