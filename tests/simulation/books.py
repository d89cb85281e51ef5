"""The books that an auditor keeps of a run, in words of his own.

Never here: a judgement, the core's fold of it but to compare.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.events import ItemsMapped
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import State
from holdfast.core.values.payload import Payload


class Visit(msgspec.Struct):
    """A step as the auditor has it."""

    id: str
    attempt: int = 0
    session: str | None = None
    active: bool = False
    ended: str | None = None
    decisions: tuple[str, ...] | None = None
    absorbed: bool = False
    parked: bool = False
    provisional: bool = False
    stopped: bool = False
    cleans_up: bool = False
    """Its run is being cancelled, and its code has heard of it."""
    starts: dict[int, int] = {}
    """Where each attempt started."""
    ended_seq: int = 0
    fields: dict[str, Any] = {}
    """What it came to of the typed state's fields."""


class Mapped(msgspec.Struct):
    """A map as the auditor has it."""

    opened: ItemsMapped
    under_way: set[str] = set()
    results: dict[int, Payload] = {}
    again: set[str] = set()
    """Those that are to be tried again before others begin."""
    taken_up: int = 0
    """Those besides that a person had tried again, each by itself."""
    over: bool = False
    stopping: bool = False
    """An item told of a failure, with which the others end."""


class Call(msgspec.Struct):
    """A call as the auditor has it."""

    kind: str
    key: str
    tool: str
    step: str
    path: str
    hold: int = 0
    tokens: int = 0
    held_ms: int = 0
    policy: str = ""
    named: bool = False
    request: Any = None
    doubted: bool = False
    closed: bool = False
    answered: bool = False
    """A model has, with a reply that is paid for."""
    superseded: bool = False
    reopened: bool = False
    """It is to be called again, as a person or its tool's lookup has said, or because its process died."""
    compensation: str | None = None
    compensates: str | None = None
    agent: str | None = None


class Books:
    """One run, as its events tell it to somebody who trusts nobody."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.is_held = graph.definition.on_limit != "record"
        """Whether it is held to its limits, and not only told of them."""
        self.state = State()
        self.seq = 0
        self.at_ms = 0
        self.tenant = ""
        self.requester: str | None = None
        self.team: str | None = None
        self.placed = False
        self.awaits: str | None = None
        self.number = 0
        """Who came when: those who wait for a place get it in this order."""
        self.limit: int | None = None
        self.most_steps = 0
        self.most_tokens: int | None = None
        self.most_model_calls: int | None = None
        self.most_tool_calls: int | None = None
        self.settled = self.held = self.doubt = 0
        self.tokens = self.tokens_held = self.tokens_doubt = 0
        self.bill = 0
        self.bills = 0
        """How many calls of models were billed."""
        self.sent_tools = 0
        """How many calls reached tools, those that undo something not counted."""
        self.unsettled_bills = Counter[int]()
        """What providers have billed for calls that are not settled."""
        self.steps: dict[str, Visit] = {}
        self.before_the_end: list[Visit] = []
        self.superseded: dict[str, int] = {}
        self.met: dict[tuple[str, str], Any] = {}
        """The conflicts of typed state that were told, by step and field, of which the end of the step is not yet known."""
        """Visits that do not count any more, and since when."""
        self.previous: dict[str, list[tuple[int, str | None]]] = {}
        """From where on which visit of a node was the one before, as loops went back over it."""
        self.visits: Counter[str] = Counter()
        self.maps: dict[str, Mapped] = {}
        self.started = 0
        self.calls: dict[str, Call] = {}
        self.completed: dict[str, str] = {}
        """Effect keys with a durable completion, and by which call."""
        self.intended = 0
        self.sent_models = 0
        self.holds = 0
        self.gates: dict[str, ev.GateOpened] = {}
        self.contributors: dict[str, int] = {}
        """Who contributed to the run, besides its requester, and by which of its events at last."""
        self.approvals: dict[str, list[ev.GateApproved]] = {}
        """Approvals of a gate with a quorum that count, besides the last; of what it shows."""
        self.approved: set[tuple[str, str | None]] = set()
        """Gates with a quorum, and who has ever approved them."""
        self.edited: set[tuple[str, str | None]] = set()
        """Gates with four eyes that were edited, and by whom."""
        self.closed_gates: dict[str, ev.GateDecided | None] = {}
        """Those that nobody decided are None."""
        self.timers: dict[tuple[str, str], tuple[int, float, int]] = {}
        self.fired: set[tuple[str, str]] = set()
        self.verdicts: dict[tuple[str, str | None, str], bool] = {}
        self.joins_over: set[str] = set()
        self.summoned: set[str] = set()
        self.signals: dict[int, ev.SignalReceived] = {}
        self.delivered: set[int] = set()
        self.called_off: set[tuple[str, str]] = set()
        """What waits no more, because its code goes on without it."""
        self.outcomes: dict[str, tuple[int, dict[Any, int]]] = {}
        """How many outcomes each step has had, and which those are that stand in its journal."""
        self.messages: set[int] = set()
        """Those that the run was told and no model was."""
        self.latest_message = 0
        self.paused = False
        self.phase = ""
        self.ended = ""
        self.compensable: list[str] = []
        self.undone: list[str] = []
        self.undoing_given_up = False
        self.done: dict[tuple[str, str, bytes], list[str]] = {}
        """What a step had done when its journal was dropped, by what it was."""
        self.told: dict[tuple[str, str, str], bytes] = {}
        self.said: dict[tuple[str, int], list[str]] = {}
        """What the code of an attempt has said in a stream."""
        self.changed: set[str] = set()
        """The steps that another version of their code has gone on with."""
        self.kinds: Counter[str] = Counter()
        self.parent: ev.Parent | None = None
        self.is_asked_for = True
        """Whether a person has had it started."""
        self.shared: tuple[str, ...] = ()
        """Where its money counts besides its tenant's and team's days and months."""
        self.children: dict[str, bool] = {}
        """The runs that it has asked for, and whether it has heard of their ends."""
        self.inherited: dict[tuple[str, str], str] = {}
        """What the origin of a fork has done, by its place: the hash of its request."""
        self.asks_before_repeats = False
        """Whether it is a fork in which what happens once needs a person's word."""
