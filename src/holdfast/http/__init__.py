"""The HTTP API of a Service, on FastAPI: JSON in and out, problems (RFC 9457), histories and streams as server-sent events.

It maps paths, bodies and headers to commands and queries, and what they come to back. Never here: what is answered (service),
who is known by which token (service.access), a process (compose).
"""
