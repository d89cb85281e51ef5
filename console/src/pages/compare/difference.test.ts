import { expect, test } from "vitest";
import { differenceOf } from "@/pages/compare/difference";

const row = (more: object) =>
  ({
    status: "completed",
    cost_usd: "0.001",
    tries: 1,
    reused: false,
    began_at: "2026-11-28T10:00:00.000Z",
    ended_at: "2026-11-28T10:00:01.000Z",
    ...more,
  }) as Parameters<typeof differenceOf>[0];

test("cost, time, outcome and tries are compared to the last digit", () => {
  const second = row({ status: "failed", cost_usd: "0.000999999", tries: 2, ended_at: "2026-11-28T10:00:00.250Z" });
  expect(differenceOf(row({}), second)).toEqual({
    status: "completed → failed",
    usd: "-0.000000001",
    took: "−750 ms",
    tries: "1 → 2 tries",
  });
  expect(differenceOf(second, row({})).usd).toBe("0.000000001");
});

test("what was not done again took no time of its own", () => {
  const second = row({ reused: true, tries: 0, ended_at: "2026-11-28T10:00:00.000Z" });
  expect(differenceOf(row({}), second)).toEqual({ status: null, usd: null, took: null, tries: null });
});
