/** A workflow's definition, as the API answers it: nodes, edges and limits, each without what has its default. */
import type { ReactNode } from "react";
import type { Drawing, DrawnEdge } from "@/parts/graph/drawing";

interface Definition {
  nodes?: { name: string; kind: string }[];
  edges?: {
    source: string;
    target: string;
    when?: string;
    guard?: string;
    on?: "success" | "error";
    max_visits?: number;
  }[];
  limits?: Record<string, unknown>;
  runs_on?: string[];
}

export function drawingOf(given: Record<string, unknown>): Drawing {
  const { nodes = [], edges = [] } = given as Definition;
  return {
    nodes: nodes.map((each) => ({
      id: each.name,
      title: each.name,
      kind: each.kind.replaceAll("_", " "),
      status: null,
    })),
    edges: edges.map(
      (each): DrawnEdge => ({
        source: each.source,
        target: each.target,
        look: each.on === "error" ? "error" : "plain",
        ...labelled(each),
      }),
    ),
  };
}

/** The label of an edge: the decision or the function that takes it, and how often a loop may go. */
export function labelled(edge: {
  when?: string | null;
  guard?: string | null;
  on?: string;
  max_visits?: number | null;
}): { label?: string } {
  const words = [
    edge.on === "error" ? "fails" : null,
    edge.when ?? null,
    edge.guard ? `if ${edge.guard}` : null,
    edge.max_visits ? `at most ${edge.max_visits} visits` : null,
  ].filter((each) => each !== null);
  return words.length > 0 ? { label: words.join(", ") } : {};
}

/** Where it runs. */
export function factsOf(given: Record<string, unknown>): [string, ReactNode][] {
  const { runs_on = [] } = given as Definition;
  return runs_on.length > 0 ? [["needs workers with", runs_on.join(", ")]] : [];
}

/** How many processes can run it, in words. */
export function processesOf({ processes }: { processes: number }): string {
  if (processes === 0) return "no living process";
  return processes === 1 ? "1 process" : `${processes.toLocaleString("en")} processes`;
}
