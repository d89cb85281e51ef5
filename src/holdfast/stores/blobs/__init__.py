"""The places for large payloads outside the store's own table: a folder, a bucket of an object store.

Never here: runs, events, what a payload means. The adapters do not know one another; `compose` picks one.
"""
