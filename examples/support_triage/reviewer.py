"""Mira, who reads every draft before it goes out: a process of her own, as she would be with any other tool.

She looks at the open gates, approves what is good and edits what is not, until all tickets are decided. It does not
matter to her whether a worker is alive: a decision is a row in the store.

    python -m examples.support_triage.reviewer STORE TICKETS [--pause-s 0.2]
"""

from __future__ import annotations

import argparse
import asyncio

from holdfast import Engine

MIRA = "mira"
ROLES = ("support-leads@",)
"""Those that she acts in: a gate asks a role here, not a person."""
LOOK_S = 0.1

EDITS = {
    "accounts@bright-ovens.example": "Hello, you are right: one of the two payments was ours to make good.",
    "d.okafor@okafor-garage.example": "Dear Mr Okafor, I am a human being and I will call you at four today. Mira",
    "tove@tove-keramik.example": "Dear Tove, how kind. I have read it out to Ahmed, who turned red.",
}
"""What she puts before the model's words, by customer."""


async def review(store: str, tickets: int, pause_s: float) -> None:
    async with Engine.open(store, execute=False) as engine:
        decided = 0
        while decided < tickets:
            for gate, _ in await engine.gates():
                if gate.reason != "approval":
                    continue
                state = await engine.run(gate.run).state()
                if gate.gate not in state.gates:
                    continue
                opened = state.gates[gate.gate].opened
                customer = (await engine.payloads.value(state.input, state.tenant))["customer_email"]
                draft = (await engine.payloads.value(opened.filled, state.tenant))["edited_body"]
                first_words = EDITS.get(customer)
                decision, data = "approve", None
                if first_words is not None:
                    decision, data = "edit", {"edited_body": f"{first_words}\n\n{draft}"}
                await engine.decide(gate.gate, decision, data, by=MIRA, roles=ROLES, shown_hash=opened.shown_hash)
                print(f"{decision} {customer}", flush=True)
                decided += 1
                await asyncio.sleep(pause_s)
            await asyncio.sleep(LOOK_S)


def main() -> None:
    parser = argparse.ArgumentParser(description="Approves the demo's drafts.")
    parser.add_argument("store")
    parser.add_argument("tickets", type=int, help="how many drafts to decide")
    parser.add_argument("--pause-s", type=float, default=0.2, help="for how long she rests after each")
    options = parser.parse_args()
    asyncio.run(review(options.store, options.tickets, options.pause_s))


if __name__ == "__main__":
    main()
