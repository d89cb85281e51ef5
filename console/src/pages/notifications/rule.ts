/** What a notification rule has: its events in words, and the command that sets it. */
import type { Body } from "@/api/bodies";
import type { Schemas } from "@/api/client";

export type Rule = Schemas["NotificationRuleRow"];
export type Sent = Body<"/api/v1/notifications/rules">;
type Occasion = Schemas["Occasion"];

/** Each event in plain words, in the order in which to choose. */
export const OCCASIONS: Record<Occasion, string> = {
  gate_opened: "A person is asked",
  gate_reminder: "A question has no answer yet",
  gate_escalated: "The deadline of a question passed",
  gate_expired: "A question expired",
  run_failed: "A run failed",
  run_completed: "A run completed",
  run_cancelled: "A run was cancelled",
  run_budget_blocked: "A run waits for budget",
  budget: "50, 80 or 100 % of a limit is used",
  dead_letter: "A step failed for good",
  doubt: "The cost or outcome of a call is unknown",
  schedule_missed: "A schedule missed a time",
  worker_lost: "A worker was lost",
};

/** About all tenants, so only a rule of holdfast.toml can name it. */
const OF_THE_FILE: ReadonlySet<string> = new Set<Occasion>(["worker_lost"]);

export const SETTABLE = Object.entries(OCCASIONS).filter(([name]) => !OF_THE_FILE.has(name));

/** The option of each field of a rule, but for its name. A field that a rule gets must get an option here. */
const OPTIONS: Record<Exclude<keyof Sent, "name">, string> = {
  occasions: "--on",
  channel: "--channel",
  to: "--to",
  workflows: "--workflow",
  labels: "--run-label",
  teams: "--team",
  children: "--children",
  digest_s: "--digest-s",
  title: "--title",
  details: "--details",
  tenant: "--tenant",
};

/** The command that sets the same rule. */
export function commandOf(rule: Partial<Sent>): string {
  const words = ["holdfast", "notifications", "set", rule.name || "NAME"];
  for (const [name, option] of Object.entries(OPTIONS)) {
    const value = rule[name as keyof Sent];
    if (value === undefined || value === null || value === false || value === "") continue;
    if (value === true) words.push(option);
    else for (const each of valuesOf(value)) words.push(option, each);
  }
  return words.map(quoted).join(" ");
}

function valuesOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.map(String);
  if (typeof value === "object" && value !== null) return Object.entries(value).map(([key, each]) => `${key}=${each}`);
  return [String(value)];
}

/** A word as a shell takes it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
