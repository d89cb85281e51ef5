/** The filter of the run list as text, `tag:pilot cost:>0.004 started:<24h`, and what the API is asked for it. */
import type { Query } from "@/api/queries";
import { isRunBeginning } from "@/parts/runs";

type Asked = Query<"/api/v1/runs">;
type RunStatus = NonNullable<Asked["status"]>[number];
type WaitKind = NonNullable<Asked["waiting_for"]>[number];

export const STATUSES: readonly RunStatus[] = [
  "running",
  "waiting",
  "requires_attention",
  "budget_blocked",
  "paused",
  "failed",
  "completed",
  "cancelled",
];

/** What a run may wait for, in a person's words: `waits:person`. Each is one kind of wait or several. */
export const WAITS: Readonly<Record<string, { words: string; kinds: readonly WaitKind[] }>> = {
  person: { words: "a person", kinds: ["gate"] },
  money: { words: "money or a limit", kinds: ["money", "tokens", "calls"] },
  place: { words: "a slot, place or pool", kinds: ["slot", "place", "pool"] },
  worker: { words: "a worker", kinds: ["worker"] },
  time: { words: "a timer or retry", kinds: ["timer", "retry"] },
  signal: { words: "a signal or value", kinds: ["signal", "shared_value"] },
  child: { words: "a child run", kinds: ["child"] },
  call: { words: "the outcome of a call", kinds: ["effect", "model"] },
  nothing: { words: "nothing: it is stuck", kinds: ["nothing"] },
};

export interface Filter {
  query: Asked;
  /** What could not be understood, in words. */
  wrong: string[];
}

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Words of the filter; a part in double quotes is one word. */
export function wordsOf(text: string): string[] {
  return (text.match(/(?:[^\s"]|"[^"]*")+/g) ?? []).map((word) => word.replaceAll('"', ""));
}

/** `now` is rounded to the minute by the caller, so that the same filter is the same query. */
export function parse(text: string, now: number): Filter {
  const query: Asked = {};
  const wrong: string[] = [];
  const free: string[] = [];
  for (const word of wordsOf(text)) {
    const [, name = "", value = ""] = /^([a-z_]+):(.*)$/.exec(word) ?? [];
    if (isRunBeginning(word)) query.prefix = word.toLowerCase();
    else if (!name) free.push(word);
    else if (!take(query, name, value, now)) wrong.push(word);
  }
  if (free.length > 0) query.text = free.join(" ");
  return { query, wrong };
}

function take(query: Asked, name: string, value: string, now: number): boolean {
  if (!value) return false;
  switch (name) {
    case "status": {
      const status = STATUSES.find((each) => each === value);
      if (status) query.status = [...(query.status ?? []), status];
      return status !== undefined;
    }
    case "waits": {
      const kinds = Object.hasOwn(WAITS, value) ? WAITS[value]?.kinds : undefined;
      if (kinds) query.waiting_for = [...new Set([...(query.waiting_for ?? []), ...kinds])];
      return kinds !== undefined;
    }
    case "tag":
      query.tag = [...(query.tag ?? []), value];
      return true;
    case "label":
      query.label = [...(query.label ?? []), value];
      return value.includes("=");
    case "workflow":
    case "key":
    case "tenant":
    case "parent":
      query[name] = value;
      return true;
    case "id":
      query.prefix = value;
      return true;
    case "doubt":
      query.in_doubt = value === "yes";
      return value === "yes";
    case "cost":
      return takeCost(query, value);
    case "started":
      return takeStarted(query, value, now);
    default:
      return false;
  }
}

function takeCost(query: Asked, value: string): boolean {
  const match = /^([<>])\$?(\d+(?:\.\d{1,9})?)$/.exec(value);
  if (!match?.[2]) return false;
  if (match[1] === ">") query.min_cost_usd = match[2];
  else query.max_cost_usd = match[2];
  return true;
}

function takeStarted(query: Asked, value: string, now: number): boolean {
  const match = /^([<>])(\d+)([mhd])$/.exec(value);
  const unit = UNITS[match?.[3] ?? ""];
  if (!match || unit === undefined) return false;
  const at = now - Number(match[2]) * unit;
  if (match[1] === "<") query.since_ms = at;
  else query.until_ms = at;
  return true;
}

export function has(text: string, word: string): boolean {
  return wordsOf(text).includes(word);
}

/** The value of the first word of this name, or "". */
export function valueIn(text: string, name: string): string {
  const word = wordsOf(text).find((each) => each.startsWith(`${name}:`));
  return word?.slice(name.length + 1) ?? "";
}

/** Add a word, or take it out. */
export function toggled(text: string, word: string): string {
  const words = wordsOf(text);
  const next = words.includes(word) ? words.filter((each) => each !== word) : [...words, word];
  return next.map((each) => (/\s/.test(each) ? `"${each}"` : each)).join(" ");
}
