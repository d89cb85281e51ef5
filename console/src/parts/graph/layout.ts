/** Where the nodes of a graph stand. It follows from the shape alone: a change of state moves nothing. */
import { useEffect, useRef, useState } from "react";
import type { Drawing } from "@/parts/graph/drawing";

export interface Shape {
  nodes: string[];
  edges: [source: string, target: string][];
  width: number;
  height: number;
  hasLabels: boolean;
}
export type Placed = Record<string, { x: number; y: number }>;

export const WIDTH = 208;
export const HEIGHT = 54;

/** Null until the first layout is there. The former layout stays while a new shape is laid out. */
export function useLayout(drawing: Drawing): Placed | null {
  const [places, setPlaces] = useState<Placed | null>(null);
  const worker = useRef<Worker | null>(null);
  const asked = useRef(0);
  useEffect(() => {
    const started = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.current = started;
    started.addEventListener("message", (event: MessageEvent<{ id: number; places: Placed }>) => {
      if (event.data.id === asked.current) setPlaces(event.data.places);
    });
    return () => {
      worker.current = null;
      started.terminate();
    };
  }, []);
  const shape = JSON.stringify(shapeOf(drawing));
  useEffect(() => {
    asked.current += 1;
    worker.current?.postMessage({ id: asked.current, shape: JSON.parse(shape) });
  }, [shape]);
  return places;
}

function shapeOf(drawing: Drawing): Shape {
  return {
    nodes: drawing.nodes.map((each) => each.id),
    edges: drawing.edges.map((each) => [each.source, each.target]),
    width: WIDTH,
    height: HEIGHT,
    hasLabels: drawing.edges.some((each) => each.label !== undefined),
  };
}
