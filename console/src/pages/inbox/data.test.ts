import { expect, test } from "vitest";
import { broughtBy, dataOf, wrongIn } from "@/pages/inbox/data";
import type { Whole } from "@/pages/inbox/words";
import { Unreadable } from "@/parts/schema";

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

test("a form is judged before the dialog: an approval by its open fields, an edit by all", () => {
  const properties = { amount: { type: "number", exclusiveMinimum: 0 }, note: { type: "string" } };
  const form = { type: "object", properties, required: ["amount", "note"] };
  const gate = {
    reason: "approval",
    form,
    initial_data: { amount: 18.4 },
    allowed: ["approve", "edit"],
  } as unknown as Whole;
  expect([...wrongIn(gate, "approve", undefined).keys()]).toEqual(["#/note"]);
  expect(wrongIn(gate, "approve", { value: { note: "sorry" } }).size).toBe(0);
  expect([...wrongIn(gate, "edit", { value: { amount: new Unreadable("abc"), note: "" } }).keys()]).toEqual([
    "#/amount",
  ]);
  expect(wrongIn(gate, "reject", undefined).size).toBe(0);
  expect(wrongIn({ ...gate, reason: "tool_approval" }, "answer", undefined).size).toBe(0);
});

test("an answer beside an approval keeps what the gate has filled in", () => {
  const form = { type: "object", properties: { amount: { type: "number" }, note: { type: "string" } } };
  const gate = { reason: "approval", form, initial_data: { amount: 18.4 }, allowed: ["approve", "answer"] };
  const value = { note: "sorry" };
  expect(dataOf(gate as unknown as Whole, "answer", { value })).toEqual({ amount: 18.4, note: "sorry" });
  expect(dataOf(gate as unknown as Whole, "approve", { value })).toEqual(value);
});
