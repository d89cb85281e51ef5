import { expect, test } from "vitest";
import { broughtBy } from "@/pages/inbox/data";

test("a decided gate shows what was filled in, with an approval too", () => {
  const initial_data = { amount: 18.4, urgent: false };
  const data = { ...initial_data, note: "sorry" };
  expect(broughtBy({ decision: "approve", data, initial_data })).toEqual({ note: "sorry" });
  expect(broughtBy({ decision: "approve", data: { note: "sorry" }, initial_data })).toEqual({ note: "sorry" });
  expect(broughtBy({ decision: "approve", data: initial_data, initial_data })).toBeUndefined();
  expect(broughtBy({ decision: "approve", data: null, initial_data: null })).toBeUndefined();
  expect(broughtBy({ decision: "answer", data: initial_data, initial_data })).toEqual(initial_data);
  expect(broughtBy({ decision: "answer", data: "yes", initial_data: null })).toBe("yes");
});
