"""Who may do and see which things: identities, keys, owners, and the one check before anything is done or answered.

Never here: a transport, the code behind a command.
"""
