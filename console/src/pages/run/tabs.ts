/**
 * The one table of the tabs of a run, in their order. A tab is a file of this folder whose default export is a component
 * that takes `TabProps`; it is loaded when it is first opened. The header's buttons are in RunActions.tsx.
 */
import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import type { Schemas } from "@/api/client";

export type RunWhole = Schemas["RunWhole"];

export interface TabProps {
  run: RunWhole;
  /** How often what the tab reads is read again: false once the run has ended. */
  every: number | false;
}

export interface Tab {
  /** As in the address: `?tab=costs`. */
  name: string;
  title: string;
  count?: (run: RunWhole) => number;
  Content: LazyExoticComponent<ComponentType<TabProps>>;
}

export const TABS: readonly Tab[] = [
  { name: "timeline", title: "Timeline", Content: lazy(() => import("@/pages/run/timeline/Timeline")) },
  { name: "conversation", title: "Conversation", Content: lazy(() => import("@/pages/run/Conversation")) },
  { name: "events", title: "Events", count: (run) => run.events, Content: lazy(() => import("@/pages/run/Events")) },
  { name: "costs", title: "Costs", Content: lazy(() => import("@/pages/run/Costs")) },
  {
    name: "effects",
    title: "Effects",
    count: (run) => run.effects.length,
    Content: lazy(() => import("@/pages/run/Effects")),
  },
  { name: "children", title: "Children", Content: lazy(() => import("@/pages/run/Children")) },
  { name: "logs", title: "Logs", Content: lazy(() => import("@/pages/run/Logs")) },
];
