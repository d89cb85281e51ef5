"""The permissions of callers: identities, keys, owners, and the one check before anything is done or answered.

Never here: a transport, the code behind a command.
"""
