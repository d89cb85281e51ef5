import {
  Background,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { createContext, memo, useContext, useEffect, useMemo, useRef, useState } from "react";
import { ForeignText } from "@/parts/ForeignText";
import { type Drawing, type DrawnNode, fold } from "@/parts/graph/drawing";
import { HEIGHT, type Placed, useLayout, WIDTH } from "@/parts/graph/layout";
import { Status } from "@/parts/Status";
import "./Graph.css";

interface Props {
  drawing: Drawing;
  label: string;
  /** What a click on a node opens. Without it nodes are no buttons. */
  onOpen?: (node: DrawnNode) => void;
}

type Box = Node<{ node: DrawnNode }, "box">;

const Open = createContext<((node: DrawnNode) => void) | undefined>(undefined);
const TYPES = { box: memo(BoxNode) };
const NO_PLACES: Placed = {};

/** A graph to look at: pan, zoom, click. Its nodes stand where they are while their states change. */
export default function Graph({ drawing, label, onOpen }: Props) {
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const shown = useMemo(() => fold(drawing, unfolded), [drawing, unfolded]);
  const places = useLayout(shown);
  const nodes = useMemo(() => nodesOf(shown, places ?? NO_PLACES), [shown, places]);
  const edges = useMemo(() => edgesOf(shown), [shown]);
  const flow = useRef<ReactFlowInstance<Box> | null>(null);
  // What a fold held comes into view once it is placed.
  const wanted = useRef<string | null>(null);
  useEffect(() => {
    const place = wanted.current === null ? undefined : places?.[wanted.current];
    if (!place) return;
    wanted.current = null;
    void flow.current?.setCenter(place.x + WIDTH / 2, place.y + HEIGHT / 2, { zoom: 0.8 });
  }, [places]);
  const first = useMemo(() => firstOf(shown), [shown]);
  const isOfRun = drawing.nodes.some((each) => each.status !== null);
  const open = (node: DrawnNode) => {
    if (node.folded) {
      setUnfolded(new Set([...unfolded, node.id]));
      wanted.current = node.folded[0]?.id ?? null;
    } else onOpen?.(node);
  };
  return (
    <section className={isOfRun ? "graph of-run" : "graph"} aria-label={label}>
      {places ? (
        <Open value={onOpen || unfolded.size > 0 || shown !== drawing ? open : undefined}>
          <ReactFlow
            nodes={nodes}
            edges={edges}
            onInit={(instance) => {
              flow.current = instance;
            }}
            nodeTypes={TYPES}
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            edgesFocusable={false}
            elementsSelectable={false}
            onlyRenderVisibleElements={nodes.length > 100}
            preventScrolling={false}
            zoomOnScroll={false}
            minZoom={0.05}
            maxZoom={1.5}
            fitView
            fitViewOptions={{ maxZoom: 1, padding: 0.08, ...first }}
            proOptions={{ hideAttribution: true }}
          >
            <Background gap={18} size={1} />
            <Controls showInteractive={false} />
          </ReactFlow>
        </Open>
      ) : null}
    </section>
  );
}

/** More nodes than this are too small to read if all are in view. */
const MOST_IN_VIEW = 24;
const DONE: ReadonlySet<string | null> = new Set(["completed", "skipped", "cancelled", null]);

/** What is in view at first: all, or of a large graph what is at work, or else its latest nodes. */
function firstOf(drawing: Drawing): { nodes?: { id: string }[]; minZoom?: number } {
  if (drawing.nodes.length <= MOST_IN_VIEW) return {};
  const isOfRun = drawing.nodes.some((each) => each.status !== null);
  const atWork = drawing.nodes.filter((each) => !DONE.has(each.status));
  const reached = drawing.nodes.filter((each) => each.status !== null);
  const nodes = atWork.length > 0 ? atWork : isOfRun ? reached.slice(-MOST_FIRST) : drawing.nodes.slice(0, MOST_FIRST);
  return { nodes: nodes.slice(0, MOST_FIRST).map(({ id }) => ({ id })), minZoom: 0.5 };
}

const MOST_FIRST = 6;

function nodesOf(drawing: Drawing, places: Placed): Box[] {
  return drawing.nodes.flatMap((node): Box[] => {
    const position = places[node.id];
    if (!position) return [];
    return [{ id: node.id, type: "box", position, width: WIDTH, height: HEIGHT, data: { node } }];
  });
}

function edgesOf(drawing: Drawing): Edge[] {
  return drawing.edges.map((edge, at) => ({
    id: `${edge.source} ${edge.target} ${at}`,
    source: edge.source,
    target: edge.target,
    className: `graph-edge ${edge.look}`,
    ...(edge.label ? { label: edge.label } : {}),
    markerEnd: { type: MarkerType.ArrowClosed, color: "context-stroke", width: 14, height: 14 },
  }));
}

function BoxNode({ data: { node } }: NodeProps<Box>) {
  const open = useContext(Open);
  const inside = (
    <>
      <span className="graph-title">
        <ForeignText text={node.title} />
      </span>
      <span className="graph-facts">
        {node.status ? <Status status={node.status} /> : null}
        <span className="faint">
          {node.kind}
          {node.note ? ` · ${node.note}` : ""}
        </span>
      </span>
    </>
  );
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      {open ? (
        <button
          type="button"
          className="graph-box"
          data-node={node.id}
          data-state={node.status ?? "none"}
          onClick={() => open(node)}
        >
          {inside}
        </button>
      ) : (
        <div className="graph-box" data-node={node.id} data-state={node.status ?? "none"}>
          {inside}
        </div>
      )}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
}
