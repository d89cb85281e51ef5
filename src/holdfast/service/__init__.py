"""Commands and queries from people and programs: the actor comes first, then a typed command or query; the answer is the plain
data that --json prints, a page at a time.

Transports (cli, wire) map their fields to these and back. Never here: a rule about runs (core), how an engine carries a command
out (engine), the words of a command line, gRPC.
"""
