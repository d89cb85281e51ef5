"""How the processes of a fleet hint to one another: `redis` over Redis Streams, `none` not at all.

Never here: anything that would be lost with a queue. What must not be lost is in the store.
"""
