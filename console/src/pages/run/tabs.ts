/**
 * The one table of the tabs of a run, in their order. A tab is a file of this folder whose default export is a component
 * that takes `TabProps`; it is loaded when it is first opened. The header's buttons are in RunActions.tsx.
 */
import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import type { Schemas } from "@/api/client";

export type RunWhole = Schemas["RunWhole"];

export interface TabProps {
  run: RunWhole;
}

export interface Tab {
  /** As in the address: `?tab=costs`. */
  name: string;
  title: string;
  /** Shown beside the title; nothing if it is empty. */
  count?: (run: RunWhole) => string;
  Content: LazyExoticComponent<ComponentType<TabProps>>;
}

const MOST_EFFECTS = 1_000;

/** The one that most see first is fetched with the page. */
const timeline = import("@/pages/run/timeline/Timeline");

export const TABS: readonly Tab[] = [
  { name: "timeline", title: "Timeline", Content: lazy(() => timeline) },
  { name: "graph", title: "Graph", Content: lazy(() => import("@/pages/run/graph/Graph")) },
  { name: "conversation", title: "Conversation", Content: lazy(() => import("@/pages/run/Conversation")) },
  {
    name: "events",
    title: "Events",
    count: (run) => run.events.toLocaleString("en"),
    Content: lazy(() => import("@/pages/run/Events")),
  },
  { name: "costs", title: "Costs", Content: lazy(() => import("@/pages/run/Costs")) },
  {
    name: "effects",
    title: "Effects",
    // The row of a run lists no more than a thousand.
    count: ({ effects }) =>
      effects.length === 0 ? "" : effects.length < MOST_EFFECTS ? `${effects.length}` : `${effects.length}+`,
    Content: lazy(() => import("@/pages/run/Effects")),
  },
  { name: "children", title: "Children", Content: lazy(() => import("@/pages/run/Children")) },
  { name: "logs", title: "Logs", Content: lazy(() => import("@/pages/run/Logs")) },
];
