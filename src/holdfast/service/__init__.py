"""What people and programs may tell Holdfast and ask it: who acts comes first, then a typed command or query; what comes back
is the plain data that --json prints, a page at a time.

Transports (cli, wire) map their fields to these and back. Never here: a rule about runs (core), how an engine does what it is
told (control, engine), the words of a command line, gRPC.
"""
