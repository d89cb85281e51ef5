import { lazy, Suspense, useMemo } from "react";
import { useNavigate } from "react-router";
import { useRow } from "@/api/queries";
import { drawingOf } from "@/pages/run/graph/drawn";
import type { TabProps } from "@/pages/run/tabs";
import type { DrawnNode } from "@/parts/graph/drawing";
import { State } from "@/parts/State";

const View = lazy(() => import("@/parts/graph/Graph"));

/**
 * The graph of a run with the state of each node, or the operations of a flow as far as it ran. It is read again after
 * each event of the run; a click opens the step.
 */
export default function Graph({ run }: TabProps) {
  const { row, isLoading, problem, again } = useRow("/api/v1/runs/{run}/graph", { path: { run: run.run_id } });
  const drawing = useMemo(() => (row ? drawingOf(row, run.error) : null), [row, run.error]);
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
