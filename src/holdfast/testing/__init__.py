"""The test kit: servers that stand in for what a run talks to, and witnesses that judge it from outside.

Everything here speaks a real protocol over a real socket, so that what is tested is what runs in production: the
provider's own SDK, the mail library, the retry, the time-out. Nothing outside tests and examples may import this
package, and a server in it may reach into no other: a judge that shares code with the accused is no judge.
"""
