/** Places the nodes of a graph beside the page, which stays free. */
import { Graph, layout } from "@dagrejs/dagre";
import type { Placed, Shape } from "./layout";

self.addEventListener("message", (event: MessageEvent<{ id: number; shape: Shape }>) => {
  const { id, shape } = event.data;
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 28, ranksep: shape.hasLabels ? 52 : 36, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of shape.nodes) graph.setNode(node, { width: shape.width, height: shape.height });
  shape.edges.forEach(([source, target], at) => {
    if (source !== target) graph.setEdge(source, target, {}, String(at));
  });
  layout(graph);
  const places: Placed = {};
  for (const node of shape.nodes) {
    const { x, y } = graph.node(node) as { x: number; y: number };
    places[node] = { x: x - shape.width / 2, y: y - shape.height / 2 };
  }
  (self as unknown as { postMessage(message: unknown): void }).postMessage({ id, places });
});
