"""Start an order, wait until it asks somebody, and approve what it shows: with the client that openapi-python-client makes.

The address and the token of the server are its two arguments. mypy checks it strictly beside the client.
"""

from __future__ import annotations

import sys

from holdfast_client import AuthenticatedClient
from holdfast_client.api.gates import decide, get_gate, list_gates
from holdfast_client.api.runs import get_run, start
from holdfast_client.models import DecideBody, GatesPage, GateState, GateWhole, RunStatus, RunStatusRow, RunWhole, StartBody


def watched(client: AuthenticatedClient, run_id: str) -> RunWhole:
    """Return the run as soon as it waits for somebody or has ended."""
    while True:
        run = get_run.sync(run_id, client=client, prefer="wait=20")
        assert isinstance(run, RunWhole), run
        if run.status is not RunStatus.RUNNING:
            return run


def main(address: str, token: str) -> str:
    """Return what the order comes to."""
    with AuthenticatedClient(base_url=address, token=token, timeout=None) as client:
        begun = start.sync(client=client, body=StartBody(workflow="order", input_={"item": "tea"}, key="order-7"))
        assert isinstance(begun, RunStatusRow), begun
        run = watched(client, begun.run_id)
        assert (run.status, [wait.kind for wait in run.waiting_for]) == (RunStatus.WAITING, ["gate"]), run
        page = list_gates.sync(client=client, run=run.run_id)
        assert isinstance(page, GatesPage), page
        gate = get_gate.sync(page.rows[0].gate_id, client=client)
        assert isinstance(gate, GateWhole), gate
        assert gate.state is GateState.OPEN
        answer = DecideBody(decision="approve", shown_hash=gate.shown_hash)
        decided = decide.sync(gate.gate_id, client=client, body=answer, holdfast_as="ida")
        assert isinstance(decided, RunStatusRow), decided
        done = watched(client, decided.run_id)
        return f"{done.status}: {done.output}, for {done.tags} at {done.cost_usd} dollars"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
