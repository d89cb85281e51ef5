"""The hints that processes of a fleet send to one another: `redis` over Redis Streams, `none` not at all.

Never here: anything that would be lost with a queue. What must not be lost is in the store.
"""
