import { lazy, Suspense, useMemo } from "react";
import { useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { useRow } from "@/api/queries";
import type { TabProps } from "@/pages/run/tabs";
import { labelled } from "@/pages/workflows/definition";
import type { Drawing, DrawnNode } from "@/parts/graph/drawing";
import { State } from "@/parts/State";

type Drawn = Schemas["DrawingRow"];
const View = lazy(() => import("@/parts/graph/Graph"));

/**
 * The graph of a run with the state of each node, or the operations of a flow as far as it ran. It is read again after
 * each event of the run; a click opens the step.
 */
export default function Graph({ run }: TabProps) {
  const { row, isLoading, problem, again } = useRow("/api/v1/runs/{run}/graph", { path: { run: run.run_id } });
  const drawing = useMemo(() => (row ? drawingOf(row) : null), [row]);
  const navigate = useNavigate();
  const open = (node: DrawnNode) => {
    const step = row?.operations.length
      ? node.id.replace(/^(.+?#\d+)\//, "$1:")
      : `${node.id}#${row?.nodes.find((each) => each.node === node.id)?.visits ?? 1}`;
    void navigate(`?step=${encodeURIComponent(step)}`);
  };
  return (
    <State
      isLoading={isLoading}
      problem={problem}
      again={again}
      isEmpty={drawing?.nodes.length === 0}
      noun="nodes"
      hint="The graph of a flow grows as it runs."
    >
      {row && row.left_out > 0 ? (
        <p className="muted">{row.left_out.toLocaleString("en")} earlier operations are in the timeline only.</p>
      ) : null}
      {drawing ? (
        <Suspense fallback={<State isLoading noun="the graph" />}>
          <View drawing={drawing} label={`Graph of ${run.workflow}`} onOpen={open} />
        </Suspense>
      ) : null}
    </State>
  );
}

function drawingOf(row: Drawn): Drawing {
  return row.operations.length > 0 ? ofFlow(row) : ofGraph(row);
}

function ofGraph(row: Drawn): Drawing {
  return {
    nodes: row.nodes.map((each) => ({
      id: each.node,
      title: each.node,
      kind: each.kind.replaceAll("_", " "),
      status: each.status,
      ...(each.visits > 1 ? { note: `${each.visits} visits` } : {}),
    })),
    edges: row.edges.map((each) => ({
      source: each.source,
      target: each.target,
      look: each.on === "error" && each.state === "taken" ? "error" : each.state === "undecided" ? "plain" : each.state,
      ...labelled(each),
    })),
  };
}

function ofFlow(row: Drawn): Drawing {
  const known = new Set(row.operations.map((each) => each.id));
  return {
    nodes: row.operations.map((each) => ({
      id: each.id,
      title: each.name,
      kind: each.kind.replaceAll("_", " "),
      status: each.status,
    })),
    edges: row.operations.flatMap((each) =>
      each.after
        .filter((before) => known.has(before))
        .map((before) => ({ source: before, target: each.id, look: "taken" as const })),
    ),
  };
}
