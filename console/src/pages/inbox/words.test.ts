import { expect, test } from "vitest";
import { asksWords, type GateRow } from "@/pages/inbox/words";

function asks(gate: object): string {
  return asksWords({
    step: "flow#1",
    reviewers: [],
    proposed_action: null,
    title: null,
    ...gate,
  } as unknown as GateRow);
}

test("a gate names whom it asks, and what", () => {
  const call = { reason: "tool_approval", proposed_action: "pay_refund", title: 'pay_refund(order="A-9")' };
  expect(asks({ ...call, reviewers: ["support"] })).toBe('Asks support: call pay_refund(order="A-9")?');
  expect(asks({ ...call, title: null })).toBe("Asks any reviewer: call pay_refund?");
  expect(
    asks({
      reason: "approval",
      proposed_action: "Refund $18.40",
      title: "Refund $18.40",
      reviewers: ["ada", "finance"],
    }),
  ).toBe("Asks ada, finance: Refund $18.40?");
  expect(asks({ reason: "approval", reviewers: ["ada"] })).toBe("Asks ada for approval");
  expect(asks({ reason: "effect_unknown", title: "Did pay take effect?" })).toBe(
    "Asks any reviewer: Did pay take effect?",
  );
  expect(asks({ reason: "question", title: "Which first?" })).toBe("Asks any reviewer: Which first?");
  expect(asks({ reason: "budget" })).toBe("Asks any reviewer: cost limit reached");
});
