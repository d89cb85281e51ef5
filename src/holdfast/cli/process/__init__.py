"""Processes of the command line: how one begins, is stopped, and keeps others. Never here: a command."""
