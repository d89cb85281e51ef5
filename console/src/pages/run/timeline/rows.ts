/** The rows of a timeline: steps with their attempts and waits, and what each step did, folded where there is much of one kind. */
import type { Schemas } from "@/api/client";
import { nanos, parts } from "@/parts/amount";
import { millis } from "@/parts/moment";

export type Operation = Schemas["OperationRow"];
export type Attempt = Schemas["AttemptRow"];
export type Step = Schemas["StepRow"];
export type RunMap = Schemas["MapRow"];

/** `wait`, `queue` and `retry` are drawn hatched: nothing is at work then. */
export type Tone = "ok" | "busy" | "bad" | "lost" | "doubt" | "idle" | "wait" | "queue" | "retry";

export interface Bar {
  from: number;
  /** Null if it goes on. */
  to: number | null;
  tone: Tone;
  words: string;
}

export interface Line {
  /** The step, `STEP:PATH` of an operation, or the group. It is in the address when the line is selected. */
  id: string;
  name: string;
  /** What kind of thing it is, in words. */
  kind: string;
  status: string;
  bars: Bar[];
  note: string;
  lines: Line[];
  isOpen: boolean;
  step?: Step | undefined;
  attempts?: Attempt[];
  operation?: Operation;
}

export interface Shown {
  line: Line;
  depth: number;
  isOpen: boolean;
}

const FEWEST_OF_A_GROUP = 5;
const MOST_BARS_OF_A_GROUP = 300;
const WAITING: ReadonlySet<Tone> = new Set(["wait", "queue", "retry"]);

export const KINDS: Record<Operation["kind"], string> = {
  function: "function",
  model: "model call",
  tool: "tool call",
  question: "question",
  child: "child run",
  map: "map",
  timer: "timer",
  signal: "signal",
  shared_value: "shared value",
  message: "message",
  value: "value",
};

export function isWaiting(tone: Tone): boolean {
  return WAITING.has(tone);
}

interface Given {
  steps: readonly Step[];
  attempts: readonly Attempt[];
  operations: readonly Operation[];
  maps: readonly RunMap[];
}

/** Lines in the order in which they began. */
export function linesOf({ steps, attempts, operations, maps }: Given): Line[] {
  const latest = new Map(steps.map((step) => [step.step, step]));
  const byStep = grouped(attempts, (each) => each.step);
  const done = grouped(operations, (each) => each.step);
  const names = new Set(maps.map((each) => each.map));
  const known = new Set([...byStep.keys(), ...latest.keys(), ...done.keys()]);
  const items = new Map<string, Line[]>();
  const top: Line[] = [];
  const of = new Map<string, Line>();
  for (const id of known) {
    if (id === "") continue;
    const line = stepLine(id, latest.get(id), byStep.get(id) ?? []);
    of.set(id, line);
    const map = mapOf(nodeOf(id), names);
    if (map === null) top.push(line);
    else push(items, map, line);
  }
  const lists = new Map(maps.map((each) => [each.map, each]));
  for (const [id, rows] of done) {
    const lines = rows.map((row) => operationLine(row, items, lists));
    const line = of.get(id);
    if (line) line.lines.push(...groups(lines, id));
    else top.push(...lines);
  }
  for (const [id, line] of of) {
    const found = items.get(nodeOf(id));
    const list = lists.get(nodeOf(id));
    if (found && list && !list.map.includes("/")) takeItems(line, found, list);
  }
  return top.sort((one, other) => startOf(one) - startOf(other));
}

/** The lines to draw, in order. `turned` are those that a person has folded or opened. */
export function flat(lines: readonly Line[], turned: ReadonlyMap<string, boolean>): Shown[] {
  const shown: Shown[] = [];
  const add = (all: readonly Line[], depth: number) => {
    for (const line of all) {
      const isOpen = line.lines.length > 0 && (turned.get(line.id) ?? line.isOpen);
      shown.push({ line, depth, isOpen });
      if (isOpen) add(line.lines, depth + 1);
    }
  };
  add(lines, 0);
  return shown;
}

/** The lines above one, so that it can be shown. */
export function pathTo(lines: readonly Line[], id: string): Line[] | null {
  for (const line of lines) {
    if (line.id === id) return [line];
    const below = pathTo(line.lines, id);
    if (below) return [line, ...below];
  }
  return null;
}

export function nodeOf(step: string): string {
  return step.replace(/#\d+$/, "");
}

function mapOf(node: string, names: ReadonlySet<string>): string | null {
  if (!node.endsWith("]")) return null;
  for (let at = node.lastIndexOf("["); at > 0; at = node.lastIndexOf("[", at - 1)) {
    const name = node.slice(0, at);
    if (names.has(name)) return name;
  }
  return null;
}

function stepLine(id: string, step: Step | undefined, attempts: Attempt[]): Line {
  const last = attempts.at(-1);
  const status = step?.status ?? last?.status ?? "ready";
  const name = id.endsWith("#1") ? nodeOf(id) : id;
  const isItem = nodeOf(id).endsWith("]");
  const line: Line = {
    id,
    name,
    kind: isItem ? "item" : "step",
    status,
    bars: barsOf(step, attempts),
    note: noteOf(step, attempts),
    lines: [],
    isOpen: !isItem,
    step,
    attempts,
  };
  return line;
}

const ATTEMPT_TONES: Record<Attempt["status"], Tone> = {
  running: "busy",
  completed: "ok",
  suspended: "ok",
  failed: "bad",
  lost: "lost",
  stopped: "doubt",
  cancelled: "idle",
};

function barsOf(step: Step | undefined, attempts: readonly Attempt[]): Bar[] {
  const bars: Bar[] = [];
  let before: Attempt | null = null;
  for (const each of attempts) {
    const from = millis(each.began_at);
    if (before?.ended_at) {
      const gap = gapAfter(before);
      if (gap) bars.push({ ...gap, from: millis(before.ended_at), to: from });
    } else if (each.ready_at) {
      bars.push({ from: millis(each.ready_at), to: from, tone: "queue", words: "waited for a slot or a worker" });
    }
    bars.push({
      from,
      to: each.ended_at ? millis(each.ended_at) : null,
      tone: ATTEMPT_TONES[each.status],
      words: `attempt ${each.attempt}, ${each.status === "suspended" ? "worked until it had to wait" : each.status}`,
    });
    before = each;
  }
  if (!step) return bars;
  const since = before?.ended_at ? millis(before.ended_at) : millis(step.changed_at);
  if (step.status === "suspended") bars.push({ from: since, to: null, tone: "wait", words: "waits" });
  if (step.status === "retrying")
    bars.push({ from: since, to: null, tone: "retry", words: "waits for its next attempt" });
  if (step.status === "ready")
    bars.push({ from: millis(step.changed_at), to: null, tone: "queue", words: "waits for a slot or a worker" });
  return bars;
}

function gapAfter(attempt: Attempt): Pick<Bar, "tone" | "words"> | null {
  if (attempt.status === "suspended") return { tone: "wait", words: "waited" };
  if (attempt.status === "failed") return { tone: "retry", words: "waited for the next attempt" };
  return null;
}

function noteOf(step: Step | undefined, attempts: readonly Attempt[]): string {
  const notes: string[] = [];
  const tries = step?.attempts ?? attempts.at(-1)?.attempt ?? 0;
  if (tries > 1) notes.push(`${tries} attempts`);
  const lost = attempts.filter((each) => each.status === "lost").length;
  if (lost > 0) notes.push(`${lost} lost with ${lost === 1 ? "its process" : "their processes"}`);
  if (step?.reason) notes.push(step.reason);
  return notes.join(" · ");
}

const TONES: Record<Operation["status"], Tone> = {
  running: "busy",
  waiting: "wait",
  retrying: "retry",
  in_doubt: "doubt",
  completed: "ok",
  failed: "bad",
  cancelled: "idle",
};
const WAITS: ReadonlySet<Operation["kind"]> = new Set(["question", "timer", "signal"]);

function operationLine(row: Operation, items: ReadonlyMap<string, Line[]>, lists: ReadonlyMap<string, RunMap>): Line {
  const from = millis(row.began_at);
  const to = row.ended_at ? millis(row.ended_at) : null;
  const bars: Bar[] = [];
  const tone = TONES[row.status];
  const words = row.status.replaceAll("_", " ");
  if (WAITS.has(row.kind)) {
    bars.push({ from, to, tone: row.status === "failed" ? "bad" : "wait", words: to === null ? "waits" : "waited" });
  } else {
    let left = row.waited_ms > 0 ? from + row.waited_ms : from;
    if (row.waited_ms > 0) bars.push({ from, to: left, tone: "queue", words: "waited before the call left" });
    for (const each of row.failed_tries) {
      const at = millis(each.at);
      bars.push({ from: left, to: at, tone: "bad", words: `a try failed: ${each.error_class.replaceAll("_", " ")}` });
      left = each.retry_at ? Math.min(millis(each.retry_at), to ?? Number.POSITIVE_INFINITY) : at;
      const isOpen = to === null && each === row.failed_tries.at(-1) && row.status === "retrying";
      if (left > at) bars.push({ from: at, to: isOpen ? null : left, tone: "retry", words: "waited for the next try" });
    }
    const isSaid = row.failed_tries.length > 0 && (row.status === "failed" || row.status === "retrying");
    if (!isSaid) bars.push({ from: left, to, tone, words });
  }
  const line: Line = {
    id: `${row.step}:${row.path ?? row.seq}`,
    name: row.kind === "question" && row.name === "question" ? "question to a person" : row.name,
    kind: KINDS[row.kind],
    status: row.status,
    bars,
    note: operationNote(row),
    lines: [],
    isOpen: false,
    operation: row,
  };
  const map = `${nodeOf(row.step)}/${row.path}`;
  const list = row.kind === "map" ? lists.get(map) : undefined;
  if (list) takeItems(line, items.get(map) ?? [], list);
  return line;
}

function operationNote(row: Operation): string {
  const notes: string[] = [];
  if (row.decision) notes.push(row.by ? `${row.decision} by ${row.by}` : row.decision);
  if (nanos(row.cost_usd) !== 0n) notes.push(moneyWords(row.cost_usd));
  if (nanos(row.held_usd) !== 0n) notes.push(`${moneyWords(row.held_usd)} held`);
  if (row.tries > 1) notes.push(`${row.tries} tries`);
  if (row.reused) notes.push("from an earlier call");
  if (row.waits_for.length > 0) notes.push(`waits for ${row.waits_for.join(", ")}`);
  return notes.join(" · ");
}

function moneyWords(usd: string): string {
  const { whole, fraction } = parts(usd);
  return `${whole}${fraction}`;
}

function takeItems(line: Line, items: Line[], list: RunMap): void {
  const counts = [`${list.completed.toLocaleString("en")} of ${list.items.toLocaleString("en")} done`];
  if (list.failed > 0) counts.push(`${list.failed} failed`);
  if (list.under_way > 0) counts.push(`${list.under_way} at work`);
  line.note = [...counts, line.note].filter(Boolean).join(" · ");
  line.lines.push(...items);
  line.isOpen = items.length < FEWEST_OF_A_GROUP;
}

/** Fold five or more of one name that follow each other. */
function groups(lines: readonly Line[], within: string): Line[] {
  const found: Line[] = [];
  for (let at = 0; at < lines.length; ) {
    const first = lines[at];
    if (!first) break;
    let end = at + 1;
    while (end < lines.length && isAlike(first, lines[end])) end += 1;
    const alike = lines.slice(at, end);
    if (alike.length < FEWEST_OF_A_GROUP) found.push(...alike);
    else found.push(group(first, alike, within));
    at = end;
  }
  return found;
}

function isAlike(one: Line, other: Line | undefined): boolean {
  return other !== undefined && one.name === other.name && one.kind === other.kind && other.lines.length === 0;
}

function group(first: Line, alike: Line[], within: string): Line {
  const counts = new Map<string, number>();
  for (const each of alike) counts.set(each.status, (counts.get(each.status) ?? 0) + 1);
  const note = [...counts].map(([status, count]) => `${count.toLocaleString("en")} ${status.replaceAll("_", " ")}`);
  const isBad = counts.has("failed");
  return {
    id: `${within}:${first.name}×${first.operation?.seq ?? ""}`,
    name: `${first.name} × ${alike.length.toLocaleString("en")}`,
    kind: `${first.kind}s`,
    status: isBad ? "failed" : (alike.at(-1)?.status ?? first.status),
    bars: merged(alike.flatMap((each) => each.bars)),
    note: note.join(", "),
    lines: alike,
    isOpen: false,
  };
}

/** Few bars in place of many: neighbours of one tone become one. */
export function merged(bars: readonly Bar[]): Bar[] {
  const first = bars[0];
  if (!first) return [];
  const span = Math.max(...bars.slice(-1).map((bar) => bar.to ?? bar.from)) - first.from;
  const near = span / MOST_BARS_OF_A_GROUP;
  const found: Bar[] = [];
  for (const bar of bars) {
    const last = found.at(-1);
    if (last && last.tone === bar.tone && last.to !== null && bar.from - last.to <= near) {
      found[found.length - 1] = { ...last, to: bar.to === null ? null : Math.max(last.to, bar.to) };
    } else found.push(bar);
  }
  return found;
}

export function startOf(line: Line): number {
  return line.bars[0]?.from ?? (line.step ? millis(line.step.changed_at) : 0);
}

/** When it ended, or null if it goes on. */
export function endOf(line: Line): number | null {
  const last = line.bars.at(-1);
  return last ? last.to : startOf(line);
}

function grouped<T>(rows: readonly T[], key: (row: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const row of rows) push(found, key(row), row);
  return found;
}

function push<T>(map: Map<string, T[]>, key: string, value: T): void {
  const found = map.get(key);
  if (found) found.push(value);
  else map.set(key, [value]);
}
