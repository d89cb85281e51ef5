/** The server's rows of a run's graph as a drawing. */
import type { Schemas } from "@/api/client";
import { labelled } from "@/pages/workflows/definition";
import type { Drawing, DrawnNode } from "@/parts/graph/drawing";

type Drawn = Schemas["DrawingRow"];
type RunError = Schemas["ErrorRow"] | null;

/** `error` is the run's, which a flow's own code may have raised. */
export function drawingOf(row: Drawn, error: RunError): Drawing {
  return row.operations.length > 0 ? ofFlow(row, error) : ofGraph(row);
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

function ofFlow(row: Drawn, error: RunError): Drawing {
  const known = new Set(row.operations.map((each) => each.id));
  const nodes: DrawnNode[] = row.operations.map((each) => ({
    id: each.id,
    title: each.name,
    kind: each.kind.replaceAll("_", " "),
    status: each.status,
  }));
  const edges: Drawing["edges"] = row.operations.flatMap((each) =>
    each.after
      .filter((before) => known.has(before))
      .map((before) => ({ source: before, target: each.id, look: "taken" as const })),
  );
  const code = codeOf(row, error);
  if (!code) return { nodes, edges };
  const followed = new Set(edges.map((each) => each.source));
  const last = nodes.filter((each) => !followed.has(each.id) && each.status === "completed");
  return {
    nodes: [...nodes, code],
    edges: [
      ...edges,
      ...last.map((each) => ({
        source: each.id,
        target: code.id,
        look: code.status === "failed" ? ("error" as const) : ("taken" as const),
      })),
    ],
  };
}

/**
 * The flow's own code, where no operation says what it does: at work, perhaps in a function, of which there is no event
 * before it ends; or failed by itself.
 */
function codeOf(row: Drawn, error: RunError): DrawnNode | null {
  const node = row.nodes.find((each) => row.operations[0]?.id.startsWith(`${each.node}#`));
  if (!node) return null;
  const code = { id: `${node.node}#${Math.max(1, node.visits)}`, status: node.status };
  const has = (status: string) => row.operations.some((each) => each.status === status);
  if (node.status === "active" && !has("running")) {
    return { ...code, title: "code of the flow", kind: "a function is named when it has ended" };
  }
  if (node.status === "failed" && row.operations.at(-1)?.status !== "failed") {
    return { ...code, title: error?.error_class.replaceAll("_", " ") ?? "error", kind: "code of the flow" };
  }
  return null;
}
