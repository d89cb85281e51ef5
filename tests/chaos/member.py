"""One process of the fleet under test: the command line as it is, on a machine whose clock may be wrong.

    python -m tests.chaos.member WORDS...        with CHAOS_CLOCK_OFF_S=3600: an hour ahead

Never here: anything that makes the fleet's work easier.
"""

from __future__ import annotations

import os
import sys
import time


def shift_clock(off_s: float) -> None:
    """Have this process believe another time of day. Clocks that count from some moment on are no clocks of day."""
    right_s, right_ns = time.time, time.time_ns
    time.time = lambda: right_s() + off_s
    time.time_ns = lambda: right_ns() + int(off_s * 1e9)


if __name__ == "__main__":
    shift_clock(float(os.environ.get("CHAOS_CLOCK_OFF_S", "0")))
    from holdfast.cli import main

    sys.argv[0] = "holdfast"
    main()
