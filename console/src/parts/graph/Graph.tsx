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
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { createContext, memo, useContext, useMemo, useState } from "react";
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
  const isOfRun = drawing.nodes.some((each) => each.status !== null);
  const open = (node: DrawnNode) => {
    if (node.folded) setUnfolded(new Set([...unfolded, node.id]));
    else onOpen?.(node);
  };
  return (
    <section className={isOfRun ? "graph of-run" : "graph"} aria-label={label}>
      {places ? (
        <Open value={onOpen || unfolded.size > 0 || shown !== drawing ? open : undefined}>
          <ReactFlow
            nodes={nodes}
            edges={edges}
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
            fitViewOptions={{ maxZoom: 1, padding: 0.08 }}
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
