import { expect, test } from "vitest";
import { type Drawing, fold } from "@/parts/graph/drawing";

function chain(length: number): Drawing {
  const nodes = Array.from({ length }, (_, at) => ({ id: `n${at}`, title: `n${at}`, kind: "task", status: null }));
  const edges = nodes.slice(1).map(({ id }, at) => ({ source: `n${at}`, target: id, look: "plain" as const }));
  return { nodes, edges };
}

test("a small graph stays as it is", () => {
  const drawing = chain(300);
  expect(fold(drawing)).toBe(drawing);
});

test("a long chain becomes one node, and opens", () => {
  const drawing = chain(301);
  const folded = fold(drawing);
  expect(folded.nodes.map((each) => [each.id, each.folded?.length])).toEqual([["fold n0", 301]]);
  expect(folded.edges).toEqual([]);
  expect(fold(drawing, new Set(["fold n0"])).nodes).toHaveLength(301);
});

test("nodes side by side become one, whose state is the one to look at first", () => {
  const many = Array.from({ length: 400 }, (_, at) => ({
    id: `m${at}`,
    title: `m${at}`,
    kind: "task",
    status: at === 7 ? "failed" : "completed",
  }));
  const drawing: Drawing = {
    nodes: [{ id: "a", title: "a", kind: "task", status: "completed" }, ...many],
    edges: many.map(({ id }) => ({ source: "a", target: id, look: "taken" as const })),
  };
  const folded = fold(drawing);
  expect(folded.nodes.map((each) => [each.id, each.status])).toEqual([
    ["a", "completed"],
    ["fold m0", "failed"],
  ]);
  expect(folded.edges).toEqual([{ source: "a", target: "fold m0", look: "taken" }]);
});
