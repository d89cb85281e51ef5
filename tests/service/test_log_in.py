"""How failed log-ins are written down: each address once a minute, all together so often, and the rest counted."""

from __future__ import annotations

from holdfast.service.access.log_in import MOST, PERIOD_MS, FailedLogIns


class Record:
    """What was written, and the time."""

    def __init__(self) -> None:
        self.now = 10 * PERIOD_MS
        self.rows: list[tuple[str, str]] = []
        self.failures = FailedLogIns(lambda: self.now, self.write)

    async def write(self, origin: str, about: str) -> None:
        self.rows.append((origin, about))


async def test_an_address_is_written_down_once_a_minute_and_its_others_are_counted() -> None:
    record = Record()
    for _ in range(100):
        await record.failures.note("10.0.0.1", "no token")
    await record.failures.note("10.0.0.2", "no token")
    record.now += PERIOD_MS
    await record.failures.note("10.0.0.1", "no token")
    assert record.rows == [("10.0.0.1", "no token"), ("10.0.0.2", "no token; 99 more before"), ("10.0.0.1", "no token")]


async def test_many_addresses_write_no_more_than_so_many_lines_a_minute() -> None:
    record = Record()
    for number in range(10 * MOST):
        await record.failures.note(f"10.0.1.{number}", "no token")
    assert len(record.rows) == MOST
    record.now += PERIOD_MS
    await record.failures.note("10.0.0.1", "no token")
    assert record.rows[-1] == ("10.0.0.1", f"no token; {9 * MOST} more before")
