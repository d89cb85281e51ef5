/**
 * The one table of pages. The router, the navigation, the command palette and the tests' list of pages read it.
 * A page is loaded when it is first opened: `load` imports its file, whose default export is the component.
 */
import type { ComponentType } from "react";
import type { Schemas } from "@/api/client";

export type Group = "Work" | "Operate" | "Account";

export interface Page {
  /** As React Router writes it: `/runs/:run`. */
  path: string;
  /** Plain noun, as in the navigation. */
  title: string;
  /** Where it stands in the navigation; a page without a group is reached from another page. */
  group?: Group;
  /** Second key of its shortcut: `g r` opens the runs. */
  key?: string;
  /** Without this grant the navigation leaves it out. */
  needs?: Schemas["Grant"];
  /** Shown without the frame and without a caller, as is sign-in. */
  isBare?: boolean;
  load: () => Promise<{ default: ComponentType }>;
}

export const PAGES: readonly Page[] = [
  // Work
  { path: "/runs", title: "Runs", group: "Work", key: "r", load: () => import("@/pages/runs/Runs") },

  // Operate

  // Account

  { path: "/sign-in", title: "Sign in", isBare: true, load: () => import("@/pages/sign-in/SignIn") },
];

export const GROUPS: readonly Group[] = ["Work", "Operate", "Account"];
