/** An event in one line: its type as words, and the fields that say most. */

import type { Schemas } from "@/api/client";
import { write } from "@/api/exact";
import { dollars } from "@/parts/amount";

type Event = Schemas["EventRow"];

/** `ModelCallSettled` is "model call settled". */
export function wordsOf(type: string): string {
  const words = type.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The likeliest to say what happened, in this order. */
const TELLING = [
  "name",
  "tool",
  "model",
  "child_workflow",
  "workflow",
  "signal",
  "decision",
  "reason",
  "error",
  "by",
  "limit",
  "path",
  "attempt",
  "cost_nanousd",
  "key",
  "shown",
  "request",
  "input",
  "output",
  "payload",
];
const MOST = 160;
const MOST_FACTS = 3;

/** The step of an event or, of one about a call, the call without its run. */
export function placeOf(event: Event): string {
  if (typeof event.step === "string") return event.step;
  return typeof event.call === "string" ? event.call.slice(event.call.indexOf(":") + 1) : "";
}

export function factsOf(event: Event): string {
  const facts: string[] = [];
  for (const name of TELLING) {
    const value = event[name];
    if (value === null || value === undefined || value === "") continue;
    const fact = factOf(name, value);
    if (fact) facts.push(fact);
    if (facts.length === MOST_FACTS) break;
  }
  return facts.join(" · ").slice(0, MOST);
}

function factOf(name: string, value: unknown): string {
  if (name === "error" && typeof value === "object" && value !== null && "message" in value)
    return String(value.message);
  if (name === "path") return `at ${value}`;
  if (name === "attempt") return Number(value) > 1 ? `attempt ${value}` : "";
  if (name.endsWith("_nanousd")) return `$${dollars(BigInt(String(value)))}`;
  if (name === "by") return `by ${value}`;
  if (typeof value === "string") return value;
  if (isLarge(value)) return `${name}, ${Math.round(Number(value.size_bytes) / 1_000).toLocaleString("en")} kB`;
  return `${name} ${write(value).slice(0, MOST)}`;
}

function isLarge(value: unknown): value is { blob: string; size_bytes: number } {
  return typeof value === "object" && value !== null && "blob" in value && "size_bytes" in value;
}
