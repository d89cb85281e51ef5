import { expect, test } from "vitest";
import { type Filter, read } from "@/parts/filters";

const FILTERS: readonly Filter[] = [
  { name: "workflow", title: "Workflow" },
  { name: "state", title: "State", choices: [{ value: "resolved", words: "closed" }] },
  { name: "since_ms", title: "Since", isDate: true },
];

test("what is set goes to the server, and is named in words", () => {
  const found = read(FILTERS, new URLSearchParams("workflow=order&state=resolved&other=1"));
  expect(found.query).toEqual({ workflow: "order", state: "resolved" });
  expect(found.words).toBe("workflow “order” and state “closed”");
});

test("a date is sent as the milliseconds of its start in UTC", () => {
  expect(read(FILTERS, new URLSearchParams("since_ms=2026-11-28")).query).toEqual({ since_ms: 1795824000000 });
});

test("nothing set is no filter", () => {
  expect(read(FILTERS, new URLSearchParams("workflow=")).words).toBeUndefined();
});
