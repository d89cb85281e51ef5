"""Holdfast as a server of the Model Context Protocol: agents start, follow and explain runs, and ask people at gates.

Tools are the commands and queries of the service, under names that a model reads. The specification:
https://modelcontextprotocol.io/specification/2026-07-28. Never here: what a command does, whether a caller may.
"""
