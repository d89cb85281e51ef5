"""The screen: words, tables, times and forms, on stdout and stderr. Never here: a store, a server."""
