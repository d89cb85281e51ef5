"""Programs' requests in the formats of their providers: what one asks for, what it can cost at most, what its reply has used.

A request goes on as the program sent it, but for its maximum of output, its tier of service and what makes a stream report its
usage. Never here: a connection, a journal, money.
"""
