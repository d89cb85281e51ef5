/** A graph as it is drawn: what the server says of nodes and edges, folded where there are too many to see. */
export interface DrawnNode {
  id: string;
  title: string;
  kind: string;
  /** Null: not reached yet, or no run. */
  status: string | null;
  /** Beside the kind, like "3 visits". */
  note?: string;
  /** Of a fold: the nodes in it. */
  folded?: readonly DrawnNode[];
}

export interface DrawnEdge {
  source: string;
  target: string;
  label?: string;
  look: "plain" | "taken" | "not_taken" | "error";
}

export interface Drawing {
  nodes: readonly DrawnNode[];
  edges: readonly DrawnEdge[];
}

/** More nodes than this are folded. */
export const MOST_NODES = 300;

/**
 * Fold nodes that have the same neighbours into one, then chains into one. What is folded follows from the shape alone, so
 * that a change of state moves nothing. `open` are the folds to leave open.
 */
export function fold(drawing: Drawing, open: ReadonlySet<string> = new Set(), most = MOST_NODES): Drawing {
  if (drawing.nodes.length <= most) return drawing;
  const level = merged(drawing, alike(drawing), open);
  if (level.nodes.length <= most) return level;
  return merged(level, chains(level), open);
}

function neighbours(drawing: Drawing): { before: Map<string, string[]>; after: Map<string, string[]> } {
  const before = new Map<string, string[]>();
  const after = new Map<string, string[]>();
  for (const { source, target } of drawing.edges) {
    after.set(source, [...(after.get(source) ?? []), target]);
    before.set(target, [...(before.get(target) ?? []), source]);
  }
  return { before, after };
}

/** Groups of nodes that follow and precede the same nodes. */
function alike(drawing: Drawing): string[][] {
  const { before, after } = neighbours(drawing);
  const groups = new Map<string, string[]>();
  for (const { id } of drawing.nodes) {
    const key = JSON.stringify([[...(before.get(id) ?? [])].sort(), [...(after.get(id) ?? [])].sort()]);
    groups.set(key, [...(groups.get(key) ?? []), id]);
  }
  return [...groups.values()];
}

/** Groups of nodes of which each leads to the next alone. */
function chains(drawing: Drawing): string[][] {
  const { before, after } = neighbours(drawing);
  const only = (from: Map<string, string[]>, id: string) => {
    const found = from.get(id) ?? [];
    return found.length === 1 ? found[0] : undefined;
  };
  const next = (id: string) => {
    const target = only(after, id);
    return target !== undefined && only(before, target) === id ? target : undefined;
  };
  const hasPrevious = new Set(drawing.nodes.flatMap(({ id }) => next(id) ?? []));
  return drawing.nodes
    .filter(({ id }) => !hasPrevious.has(id))
    .map(({ id }) => {
      const chain = [id];
      for (let at = next(id); at !== undefined && !chain.includes(at); at = next(at)) chain.push(at);
      return chain;
    });
}

const FEWEST = 3;

function merged(drawing: Drawing, groups: readonly string[][], open: ReadonlySet<string>): Drawing {
  const nodes = new Map(drawing.nodes.map((each) => [each.id, each]));
  const into = new Map<string, string>();
  const folds = new Map<string, DrawnNode>();
  for (const group of groups) {
    const id = `fold ${group[0]}`;
    if (group.length < FEWEST || open.has(id)) continue;
    const inside = group.flatMap((each) => {
      const node = nodes.get(each);
      return node ? (node.folded ?? [node]) : [];
    });
    folds.set(id, { id, title: titleOf(inside), kind: "folded", status: worst(inside), folded: inside });
    for (const each of group) into.set(each, id);
  }
  const seen = new Set<string>();
  const shown: DrawnNode[] = [];
  for (const node of drawing.nodes) {
    const id = into.get(node.id) ?? node.id;
    if (seen.has(id)) continue;
    seen.add(id);
    shown.push(folds.get(id) ?? node);
  }
  const edges = new Map<string, DrawnEdge>();
  for (const edge of drawing.edges) {
    const source = into.get(edge.source) ?? edge.source;
    const target = into.get(edge.target) ?? edge.target;
    if (source === target) continue;
    const key = `${source}\n${target}\n${edge.label ?? ""}`;
    const known = edges.get(key);
    edges.set(key, { ...edge, source, target, look: known?.look === "taken" ? "taken" : edge.look });
  }
  return { nodes: shown, edges: [...edges.values()] };
}

function titleOf(inside: readonly DrawnNode[]): string {
  return `${inside.length.toLocaleString("en")} nodes from ${inside[0]?.title ?? ""}`;
}

/** Statuses in the order in which a fold shows them. */
const FIRST = [
  "failed",
  "in_doubt",
  "active",
  "running",
  "retrying",
  "suspended",
  "waiting",
  "ready",
  "cancelled",
  "completed",
  "skipped",
];

function worst(inside: readonly DrawnNode[]): string | null {
  const held = new Set(inside.map((each) => each.status));
  return FIRST.find((each) => held.has(each)) ?? null;
}
