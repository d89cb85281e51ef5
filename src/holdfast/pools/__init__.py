"""Authorities over provider pools that processes share: in Redis, in PostgreSQL. They do not know one another.

Never here: who waits in this process (scheduling.pools), the order in which tickets are served (core.quota; in Redis, its
other spelling in visit.lua).
"""
