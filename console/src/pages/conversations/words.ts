/** A conversation in words, and its address. */
import type { Schemas } from "@/api/client";
import { addressOfWhy } from "@/parts/why";

export type Whole = Schemas["ConversationWhole"];
export type Exchange = Schemas["ExchangeRow"];
export type OnBusy = Whole["on_busy"];

export const ON_BUSY: readonly OnBusy[] = ["enqueue", "steer", "interrupt", "rollback", "reject"];

/** `rule` completes "a message while the agent is at work …"; `verb` is the button that sends one. */
export const BUSY_WORDS: Record<OnBusy, { rule: string; verb: string }> = {
  enqueue: { rule: "is queued", verb: "Queue" },
  steer: { rule: "steers the reply", verb: "Steer" },
  interrupt: { rule: "stops the reply and is answered next", verb: "Interrupt" },
  rollback: { rule: "replaces the message at work", verb: "Replace" },
  reject: { rule: "is refused", verb: "Send" },
};

/** The tenant is in the address only where it is not the usual one. */
export function addressOf({ name, tenant }: { name: string; tenant: string }): string {
  const query = tenant === "default" ? "" : `?${new URLSearchParams({ tenant })}`;
  return `/conversations/${encodeURIComponent(name)}${query}`;
}

/** The messages on the way to the latest one, with those that wait and those that steered; the rest is on other branches. */
export function onTheWay(row: Whole): { shown: Exchange[]; others: number } {
  const byNumber = new Map(row.exchanges.map((each) => [each.number, each]));
  const way = new Set<number>(row.waiting);
  for (const start of [row.latest, row.active, ...row.waiting]) {
    let at = start === null ? undefined : byNumber.get(start);
    while (at && !(way.has(at.number) && !row.waiting.includes(at.number))) {
      way.add(at.number);
      at = at.after === null ? undefined : byNumber.get(at.after);
    }
  }
  const isShown = (each: Exchange) => way.has(each.number) || (each.steers !== null && way.has(each.steers));
  const shown = row.exchanges.filter(isShown);
  return { shown, others: row.exchanges.length - shown.length };
}

export interface Stopped {
  words: string;
  /** Where one reads more, or raises the limit. */
  link: string;
  to: string;
}

/** Why the run of a reply is stopped for money; null if it is not. */
export function stopOf(
  run: Pick<Schemas["RunWhole"], "run_id" | "status" | "waiting_for"> | undefined,
): Stopped | null {
  if (run?.status !== "budget_blocked") return null;
  const gate = run.waiting_for.find((each) => each.kind === "gate" && each.reason === "budget");
  if (gate) {
    return {
      words: "Stopped: the cost limit of its run is reached.",
      link: "Open the question",
      to: `/inbox/${encodeURIComponent(gate.id)}`,
    };
  }
  const money = run.waiting_for.find((each) => each.kind === "money" && each.reason in WHOSE);
  const whose = WHOSE[money?.reason ?? ""] ?? "that it is charged to";
  return {
    words: `Stopped: the limit ${whose} has not enough left for the next call.`,
    link: "Why does it wait?",
    to: addressOfWhy(run.run_id, money?.step),
  };
}

const WHOSE: Record<string, string> = {
  conversation_budget: "of this conversation",
  tenant_budget: "of its tenant",
  team_budget: "of its team",
  agent_budget: "of its agent",
  tree_budget: "of its root run",
};
