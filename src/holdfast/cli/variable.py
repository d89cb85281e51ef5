"""The environment variables of the command line. Those of settings are beside the settings.

Never here: reading one.
"""

from __future__ import annotations

from typing import Final

SERVER: Final = "HOLDFAST_URL"
"""Address of a server, such as `http://127.0.0.1:8000`: commands go there instead of to a store."""
TOKEN: Final = "HOLDFAST_TOKEN"
"""Token or API key for that server. `holdfast dev` serves with it."""
TOKEN_FILE: Final = "HOLDFAST_TOKEN_FILE"
"""File that holds the token, read where `HOLDFAST_TOKEN` is not set."""
USER: Final = "HOLDFAST_USER"
"""Name under which you act, unless `--as` gives one; by default the system's user."""
TRACE: Final = "TRACEPARENT"
"""W3C trace context of what calls the command; CI systems set it. It is kept with what the command does."""
