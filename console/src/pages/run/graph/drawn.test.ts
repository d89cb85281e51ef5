import { expect, test } from "vitest";
import { drawingOf } from "@/pages/run/graph/drawn";

const drawn = (status: string, operations: [name: string, status: string, after: string[]][]) =>
  ({
    nodes: [{ node: "flow", kind: "task", status, visits: 1 }],
    edges: [],
    operations: operations.map(([name, each, after]) => ({ id: name, name, kind: "function", status: each, after })),
  }) as unknown as Parameters<typeof drawingOf>[0];
const of = (...given: Parameters<typeof drawn>) => {
  const { nodes, edges } = drawingOf(drawn(...given), { error_class: "code" } as Parameters<typeof drawingOf>[1]);
  return { states: nodes.map((each) => each.status), edges: edges.map((each) => `${each.source} ${each.target}`) };
};

test("a flow that is at work has its code after what has ended", () => {
  const { states, edges } = of("active", [
    ["flow#1/0", "completed", []],
    ["flow#1/1", "completed", ["flow#1/0"]],
    ["flow#1/2", "waiting", ["flow#1/0"]],
  ]);
  expect(states).toEqual(["completed", "completed", "waiting", "active"]);
  expect(edges).toEqual(["flow#1/0 flow#1/1", "flow#1/0 flow#1/2", "flow#1/1 flow#1"]);
});

test("an operation that says what the flow does stands for its code", () => {
  expect(of("active", [["flow#1/0", "running", []]]).states).toEqual(["running"]);
  expect(of("failed", [["flow#1/0", "failed", []]]).states).toEqual(["failed"]);
  expect(of("suspended", [["flow#1/0", "waiting", []]]).states).toEqual(["waiting"]);
  expect(of("failed", [["flow#1/0", "completed", []]]).states).toEqual(["completed", "failed"]);
});
