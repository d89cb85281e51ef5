"""Analytics: the events of all runs in ClickHouse, for questions about many runs that a store is not made for.

Never here: a price, a decision about a run, the content of a run unless the settings ask for it.
"""

from typing import Final

OF_ARCHIVES: Final = "clickhouse-archive"
"""Name of the sink that gets the events of archived runs: what has left the tables, or the tail, with its month."""
