"""What people and programs tell runs and ask about them: the methods of an `Engine`, by subject, and the handle on a run.

Never here: how a run is driven (engine), an adapter, how an engine comes to be (compose), words of a command line (cli).
"""
