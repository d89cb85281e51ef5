"""Provider pools: who waits for them in this process, and where they are counted: here, in Redis, in PostgreSQL.

`borrower` waits, at one of the authorities `book`, `redis` and `postgres`, which do not know one another. Never here: the
order in which tickets are served (core.quota; for Redis, its other spelling in visit.lua), what a call takes (models).
"""
