"""A model gateway for programs: a port on this machine that speaks the providers' own wire formats.

    listener     the port, opened for the first program, and who may call it
    connection   a program's connection
    application  requests and replies in HTTP
    variables    the environment that leads a program's clients here

A program gets a token that is bound to one attempt of one step, and is revoked when that is over; it never sees a provider's
key. Never here: a wire format's meaning (models.forwarded), money, a journal (the attempt's ports.ForwardedCalls).
"""

from holdfast.gateway.listener import LoopbackGateway

__all__ = ["LoopbackGateway"]
