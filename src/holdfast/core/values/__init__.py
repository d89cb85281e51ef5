"""Values of the core: ids, money, payloads, names of scopes, and what else is equal when its parts are.

Never here: a record with a name of its own (nouns), an event (facts).
"""
