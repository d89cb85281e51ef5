import { expect, test } from "vitest";
import { stopOf } from "@/pages/conversations/words";

const RUN = "01a220ee-c4e9-7770-8000-000000000001";
const MONEY = { kind: "money", reason: "conversation_budget", id: "flow#1:1", since_ms: 0, step: "flow#1" } as const;
const GATE = { kind: "gate", reason: "budget", id: `${RUN}:budget#1`, since_ms: 0 } as const;

test("a reply that is stopped for money says whose limit it is, and where one goes on", () => {
  const stop = stopOf({ run_id: RUN, status: "budget_blocked", waiting_for: [MONEY] });
  expect(stop?.words).toBe("Stopped: the limit of this conversation has not enough left for the next call.");
  expect(stop?.to).toContain(RUN);
  const asked = stopOf({ run_id: RUN, status: "budget_blocked", waiting_for: [MONEY, GATE] });
  expect(asked?.words).toBe("Stopped: the cost limit of its run is reached.");
  expect(asked?.to).toBe(`/inbox/${encodeURIComponent(GATE.id)}`);
  expect(stopOf({ run_id: RUN, status: "running", waiting_for: [MONEY] })).toBeNull();
  expect(stopOf(undefined)).toBeNull();
});
