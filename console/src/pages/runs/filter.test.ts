import { expect, test } from "vitest";
import { parse, toggled, wordsOf } from "@/pages/runs/filter";

const NOW = 1_000_000_000_000;

test("the text of a filter is what the API is asked", () => {
  const { query, wrong } = parse(
    'status:failed status:running tag:pilot cost:>0.004 started:<24h label:a=b "office chairs"',
    NOW,
  );
  expect(wrong).toEqual([]);
  expect(query).toEqual({
    status: ["failed", "running"],
    tag: ["pilot"],
    label: ["a=b"],
    min_cost_usd: "0.004",
    since_ms: NOW - 86_400_000,
    text: "office chairs",
  });
});

test("what is not understood is named, and not sent", () => {
  expect(parse("status:odd cost:cheap colour:red", NOW).wrong).toEqual(["status:odd", "cost:cheap", "colour:red"]);
});

test("what a run waits for is asked by its kinds", () => {
  expect(parse("waits:person waits:money", NOW).query.waiting_for).toEqual(["gate", "money", "tokens", "calls"]);
  expect(parse("waits:godot waits:constructor", NOW).wrong).toEqual(["waits:godot", "waits:constructor"]);
});

test("a chip adds its word and takes it out", () => {
  expect(toggled("tag:a", "status:failed")).toBe("tag:a status:failed");
  expect(toggled('tag:a status:failed "x y"', "status:failed")).toBe('tag:a "x y"');
  expect(wordsOf('label:name="x y"')).toEqual(["label:name=x y"]);
});

test("the beginning of a run's id is no text", () => {
  expect(parse("01A2176D-46E9 status:failed", NOW).query).toEqual({ prefix: "01a2176d-46e9", status: ["failed"] });
});
