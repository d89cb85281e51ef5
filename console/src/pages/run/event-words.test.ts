import { expect, test } from "vitest";
import { factsOf, placeOf, wordsOf } from "./event-words";

const event = (more: Record<string, unknown>) =>
  ({ seq: 1, at: "2026-01-01T00:00:00Z", type: "X", trace_id: null, ...more }) as Parameters<typeof factsOf>[0];

test("a type is words", () => {
  expect(wordsOf("ModelCallSettled")).toBe("Model call settled");
  expect(wordsOf("RunStarted")).toBe("Run started");
});

test("the fields that say most stand first, and money keeps each nano-dollar", () => {
  expect(factsOf(event({ tool: "pay", path: "0", attempt: 1 }))).toBe("pay · at 0");
  expect(factsOf(event({ attempt: 2, error: { message: "no" } }))).toBe("no · attempt 2");
  expect(factsOf(event({ cost_nanousd: 272500 }))).toBe("$0.0002725");
  expect(factsOf(event({ output: { blob: "x", size_bytes: 5_546_680, month: "m" } }))).toBe("output, 5,547 kB");
});

test("an event about a call is placed by the call", () => {
  expect(placeOf(event({ call: "01a2:flow#1:0:1" }))).toBe("flow#1:0:1");
  expect(placeOf(event({ step: "draft#2" }))).toBe("draft#2");
});
