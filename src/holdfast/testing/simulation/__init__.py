"""A deterministic simulation of Holdfast: the real core and engine in virtual time, among random programs and faults.

`simulate(seed)` runs one program and judges it; `python -m holdfast.testing.simulation` runs many. A seed repeats what
it did, exactly. Never here: anything that a running Holdfast imports.
"""

from holdfast.testing.simulation.simulation import Kind, Mode, Outcome, simulate

__all__ = ["Kind", "Mode", "Outcome", "simulate"]
