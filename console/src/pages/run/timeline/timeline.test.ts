import { expect, test } from "vitest";
import type { Attempt, Bar, Operation, Step } from "./rows";
import { flat, linesOf, merged, pathTo } from "./rows";
import { moved, placeOf, stretches, timeAt, WHOLE, zoomed } from "./scale";

const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const attempt = (step: string, from: number, to: number | null, status: Attempt["status"], number = 1): Attempt => ({
  step,
  attempt: number,
  status,
  ready_at: null,
  began_at: at(from),
  ended_at: to === null ? null : at(to),
  retry_at: null,
  worker: "w",
  seq: from,
  ended_seq: null,
  error: null,
});
const step = (id: string, status: Step["status"]): Step => ({
  step: id,
  status,
  attempts: 1,
  resumptions: 0,
  began_at: at(0),
  changed_at: at(9),
  retry_at: null,
  worker: null,
  decisions: null,
  error: null,
  reason: null,
});
const operation = (path: string, name: string, from: number, more: Partial<Operation> = {}): Operation => ({
  step: "flow#1",
  path,
  kind: "function",
  name,
  seq: from,
  status: "completed",
  began_at: at(from),
  ended_at: at(from + 1),
  ended_seq: from,
  tries: 1,
  waited_ms: 0,
  cost_usd: "0.00",
  held_usd: "0.00",
  input_tokens: 0,
  output_tokens: 0,
  max_tokens: null,
  about: null,
  due_at: null,
  waits_for: [],
  waiting_for: null,
  reused: false,
  decision: null,
  by: null,
  error: null,
  failed_tries: [],
  ...more,
});

test("a lost attempt, a wait and a retry are bars of the step", () => {
  const attempts = [
    attempt("flow#1", 0, 2, "lost"),
    attempt("flow#1", 3, 4, "failed", 2),
    attempt("flow#1", 6, 7, "suspended", 3),
  ];
  const [line] = linesOf({ steps: [step("flow#1", "suspended")], attempts, operations: [], maps: [] });
  expect(line?.bars.map((bar) => bar.tone)).toEqual(["lost", "bad", "retry", "ok", "wait"]);
  expect(line?.bars.at(-1)).toMatchObject({ from: 7_000, to: null });
  expect(line?.note).toBe("1 lost with its process");
});

test("each try of an operation is a bar, with the waits between", () => {
  const failed = (from: number, next: number | null) => ({
    at: at(from),
    retry_at: next === null ? null : at(next),
    error_class: "timeout",
  });
  const row = operation("0", "call", 0, { ended_at: at(9), tries: 3, failed_tries: [failed(1, 3), failed(4, 8)] });
  const lineOf = (each: Operation) => linesOf({ steps: [], attempts: [], operations: [each], maps: [] })[0]?.lines[0];
  expect(lineOf(row)?.bars.map((bar) => [bar.tone, bar.from, bar.to])).toEqual([
    ["bad", 0, 1_000],
    ["retry", 1_000, 3_000],
    ["bad", 3_000, 4_000],
    ["retry", 4_000, 8_000],
    ["ok", 8_000, 9_000],
  ]);
  const gone = operation("0", "call", 0, { ended_at: at(1), status: "failed", failed_tries: [failed(1, null)] });
  expect(lineOf(gone)?.bars.map((bar) => bar.tone)).toEqual(["bad"]);
});

test("five or more of one name are folded, and opened", () => {
  const many = Array.from({ length: 5_000 }, (_, index) => operation(`${index}`, "tick", index));
  const operations = [operation("a", "begin", 0), ...many, operation("z", "end", 5_000)];
  const lines = linesOf({ steps: [step("flow#1", "completed")], attempts: [], operations, maps: [] });
  const shown = flat(lines, new Map());
  expect(shown.map((each) => each.line.name)).toEqual(["flow", "begin", "tick × 5,000", "end"]);
  expect(shown[2]?.line.bars.length).toBeLessThanOrEqual(301);
  const group = shown[2]?.line.id ?? "";
  expect(flat(lines, new Map([[group, true]]))).toHaveLength(5_004);
  expect(pathTo(lines, "flow#1:77")?.map((each) => each.id)).toEqual(["flow#1", group, "flow#1:77"]);
});

test("items of a map are folded under the map, with its counts", () => {
  const maps = [
    { map: "flow/4", step: "flow#1", status: "running", items: 9, completed: 5, failed: 1, under_way: 1, failures: [] },
  ] as never;
  const attempts = [0, 1, 2, 3, 4, 5].map((index) => attempt(`flow/4[${index}]#1`, index, index + 1, "completed"));
  const operations = [operation("4", "measure", 0, { kind: "map" })];
  const lines = linesOf({ steps: [step("flow#1", "active")], attempts, operations, maps });
  expect(flat(lines, new Map()).map((each) => each.line.name)).toEqual(["flow", "measure"]);
  expect(lines[0]?.lines[0]?.lines).toHaveLength(6);
  expect(lines[0]?.lines[0]?.note).toBe("5 of 9 done · 1 failed · 1 at work");
});

test("idle time is drawn short, and places lead back to times", () => {
  const day = 86_400_000;
  const bars: Bar[] = [
    { from: 0, to: 4_000, tone: "ok", words: "" },
    { from: 4_000, to: 4 * day, tone: "wait", words: "" },
    { from: 4 * day, to: 4 * day + 6_000, tone: "busy", words: "" },
  ];
  const all = stretches(bars, 0, 4 * day + 6_000, true);
  expect(all.map((each) => each.isIdle)).toEqual([false, true, false]);
  expect(placeOf(all, 4 * day)).toBeLessThan(0.5);
  for (const time of [0, 2_000, 2 * day, 4 * day + 3_000]) {
    expect(timeAt(all, placeOf(all, time))).toBeCloseTo(time, -1);
  }
  expect(stretches(bars, 0, 4 * day + 6_000, false)).toHaveLength(1);
  expect(stretches([], 5, 5, true)).toHaveLength(1);
});

test("the view stays within the whole, and keeps its place when zoomed", () => {
  const near = zoomed(WHOLE, 0.5, 0.25);
  expect(near).toEqual({ from: 0.125, to: 0.625 });
  expect(moved(near, 9)).toEqual({ from: 0.5, to: 1 });
  expect(zoomed(near, 99, 0.5)).toEqual(WHOLE);
});

test("neighbours of one tone become one bar", () => {
  const bar = (from: number, to: number, tone: Bar["tone"] = "ok"): Bar => ({ from, to, tone, words: "" });
  expect(merged([bar(0, 1), bar(1, 2), bar(2, 3, "bad"), bar(3, 900)])).toHaveLength(3);
});
