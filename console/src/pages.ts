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
  { path: "/runs/:run", title: "Run", load: () => import("@/pages/run/Run") },
  { path: "/runs/:run/compare/:other", title: "Two runs", load: () => import("@/pages/compare/Compare") },
  { path: "/inbox", title: "Inbox", group: "Work", key: "i", load: () => import("@/pages/inbox/Inbox") },
  { path: "/inbox/:gate", title: "Gate", load: () => import("@/pages/inbox/Inbox") },
  {
    path: "/conversations",
    title: "Conversations",
    group: "Work",
    key: "c",
    load: () => import("@/pages/conversations/Conversations"),
  },
  { path: "/conversations/:id", title: "Conversation", load: () => import("@/pages/conversations/Conversation") },
  {
    path: "/schedules",
    title: "Schedules",
    group: "Work",
    key: "s",
    load: () => import("@/pages/schedules/Schedules"),
  },
  { path: "/schedules/:name", title: "Schedule", load: () => import("@/pages/schedules/Schedule") },
  {
    path: "/workflows",
    title: "Workflows",
    group: "Work",
    key: "w",
    load: () => import("@/pages/workflows/Workflows"),
  },
  { path: "/workflows/:name", title: "Workflow", load: () => import("@/pages/workflows/Workflow") },

  // Operate
  { path: "/queue", title: "Queue", group: "Operate", key: "q", load: () => import("@/pages/queue/Queue") },
  { path: "/pools", title: "Pools", group: "Operate", key: "p", load: () => import("@/pages/pools/Pools") },
  { path: "/pools/:name", title: "Pool", load: () => import("@/pages/pools/Pool") },
  { path: "/workers", title: "Workers", group: "Operate", key: "k", load: () => import("@/pages/workers/Workers") },
  {
    path: "/dead-letters",
    title: "Dead letters",
    group: "Operate",
    key: "d",
    load: () => import("@/pages/dead-letters/DeadLetters"),
  },
  { path: "/dead-letters/:letter", title: "Dead letter", load: () => import("@/pages/dead-letters/DeadLetter") },
  { path: "/doubts", title: "Doubts", group: "Operate", key: "u", load: () => import("@/pages/doubts/Doubts") },
  {
    path: "/notifications",
    title: "Notifications",
    group: "Operate",
    key: "n",
    load: () => import("@/pages/notifications/Notifications"),
  },

  // Account
  { path: "/costs", title: "Costs", group: "Account", key: "o", load: () => import("@/pages/costs/Costs") },
  { path: "/budgets", title: "Budgets", group: "Account", key: "b", load: () => import("@/pages/budgets/Budgets") },
  { path: "/budgets/:name", title: "Team budget", load: () => import("@/pages/budgets/TeamBudget") },
  { path: "/evals", title: "Evaluations", group: "Account", key: "e", load: () => import("@/pages/evals/Evals") },
  { path: "/evals/:evaluation", title: "Evaluation", load: () => import("@/pages/evals/Evaluation") },
  {
    path: "/audit",
    title: "Audit",
    group: "Account",
    key: "a",
    needs: "admin",
    load: () => import("@/pages/audit/Audit"),
  },
  { path: "/settings", title: "Settings", group: "Account", key: ",", load: () => import("@/pages/settings/Settings") },

  { path: "/sign-in", title: "Sign in", isBare: true, load: () => import("@/pages/sign-in/SignIn") },
];

export const GROUPS: readonly Group[] = ["Work", "Operate", "Account"];
