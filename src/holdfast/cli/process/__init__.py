"""How a process of the command line begins, is stopped, and keeps others. Never here: a command."""
