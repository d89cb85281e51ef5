/** A gate in words: what is asked, what a decision leads to, what a call does. The facts come from the API. */
import type { Schemas } from "@/api/client";
import { isObject } from "@/parts/schema";

export type Whole = Schemas["GateWhole"];
export type GateRow = Schemas["GateRow"];
type Consequence = Schemas["GateConsequenceRow"];
type Call = Schemas["GateCallRow"];

const ASKS: Record<string, string> = {
  approval: "Approval",
  question: "Question",
  tool_approval: "Tool call",
  effect_unknown: "Unknown outcome of a tool call",
  exhausted: "A step has failed for good",
  compensation_failed: "An effect could not be undone",
  workflow_missing: "The workflow's code is missing",
  code_changed: "The code has changed",
  version_held: "A version of the workflow is held back",
  budget: "Cost limit reached",
  max_steps: "Limit on steps reached",
  max_tokens: "Limit on tokens reached",
  max_active: "Limit on working time reached",
  max_wall: "Maximum age reached",
  max_model_calls: "Limit on model calls reached",
  max_tool_calls: "Limit on tool calls reached",
  lifespan: "Older than expected",
};

export function reasonWords(reason: string): string {
  return ASKS[reason] ?? sentence(reason);
}

/** What is asked, in a line. */
export function titleOf(gate: GateRow | Whole): string {
  if (gate.title !== null) return gate.title;
  if (gate.reason === "approval" && gate.step) return `Approve ${gate.step.replace(/#\d+$/, "")}`;
  return reasonWords(gate.reason);
}

/** Whom a gate asks, and what. */
export function asksWords(gate: GateRow | Whole): string {
  const who = gate.reviewers.join(", ") || "any reviewer";
  if (gate.reason === "tool_approval") return `Asks ${who}: call ${gate.title ?? gate.proposed_action ?? "a tool"}?`;
  const title = titleOf(gate);
  if (title.endsWith("?")) return `Asks ${who}: ${title}`;
  if (gate.proposed_action) return `Asks ${who}: ${title}?`;
  if (gate.reason === "approval") return `Asks ${who} for approval`;
  return `Asks ${who}: ${lower(title)}`;
}

function lower(words: string): string {
  return words.charAt(0).toLowerCase() + words.slice(1);
}

/** Fields of what is shown that stand in the page's title or beside it. */
export function saidElsewhere(gate: Whole): string[] {
  if (!isObject(gate.shown)) return [];
  const shown = gate.shown;
  const known: [string, unknown][] = [
    ["proposed_action", gate.proposed_action],
    ["risk_level", gate.risk_level],
    ...["question", "title", "subject", "summary"].map((name): [string, unknown] => [name, gate.title]),
  ];
  const found = known.filter(([name, value]) => value !== null && shown[name] === value).map(([name]) => name);
  if (same(shown.evidence_ids, gate.evidence_ids) && gate.evidence_ids.length > 0) found.push("evidence_ids");
  if (isObject(gate.initial_data)) {
    for (const [name, value] of Object.entries(gate.initial_data)) if (same(shown[name], value)) found.push(name);
  }
  if (gate.call) found.push("tool", "arguments");
  // The form has the new limit, the message has what is reached.
  if (raisesLimit(gate)) found.push("limit", "reached", "needed_limit_usd");
  return found;
}

/** True if the answer is a new limit. */
export function raisesLimit(gate: Whole): boolean {
  return gate.consequences.some((each) => each.follows === "limit_raised");
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

const VERBS: Record<string, string> = {
  approve: "Approve",
  edit: "Edit",
  reject: "Reject",
  answer: "Answer",
  retry: "Try again",
};

export function verbOf(decision: string, gate: Whole): string {
  if (gate.reason === "effect_unknown") {
    const words: Record<string, string> = { answer: "It took effect", reject: "It did not", retry: "Call again" };
    return words[decision] ?? sentence(decision);
  }
  return VERBS[decision] ?? sentence(decision);
}

/** What a decision leads to, as the server answers. */
export function followsWords(row: Consequence, call: Call | null | undefined): string {
  const tool = call?.tool ?? "the tool";
  const to = row.nodes.length > 0 ? ` to ${row.nodes.join(", ")}` : "";
  const persons = row.more === 1 ? "1 more person" : `${row.more} more persons`;
  switch (row.follows) {
    case "counted":
      return `It counts as one approval. The gate stays open: ${persons} must approve.`;
    case "asked_again":
      return "The changes are shown to another person, who decides.";
    case "call_made":
      return `${tool} is called.`;
    case "call_not_made":
      return `${tool} is not called. The step receives the rejection as an error.`;
    case "answered":
      return `${tool} is not called. Your data stands for its response.`;
    case "step_goes_on":
      return to ? `The run goes on${to}.` : "The run goes on with your decision.";
    case "step_retried":
      return "The step is tried again.";
    case "step_restarted":
      return "The step begins again.";
    case "step_fails":
      return to ? `The step fails. The run goes on${to}.` : "The step fails. The run goes on without it.";
    case "run_fails":
      return "The run fails, and undoes what it can.";
    case "version_released":
      return "The version is released: this run begins, and so do others that wait like it.";
    case "limit_raised":
      return "The run goes on under the limit that you enter.";
    case "run_ends":
      return "The run ends as if the effect had been undone.";
  }
}

const POLICIES: Record<NonNullable<Call["policy"]>, string> = {
  read: "Reads only: it changes nothing.",
  idempotent: "Idempotent: a repeated call under the same key has no second effect.",
  verify: "Verified: if its outcome is unknown, the tool looks it up.",
  once: "Once: if its outcome is unknown, a person is asked.",
};

export function policyWords(call: Call): string {
  return call.policy ? POLICIES[call.policy] : "The tool's effect policy is unknown.";
}

export function undoWords(call: Call): string {
  if (call.irreversible) return "Nothing can undo it.";
  if (call.undone_by) return `${call.undone_by} undoes it if the run fails or is cancelled.`;
  if (call.policy === "read") return "There is nothing to undo.";
  return call.policy === null ? "It is unknown whether a tool undoes it." : "No tool undoes it.";
}

export function sentence(code: string): string {
  const words = code.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
