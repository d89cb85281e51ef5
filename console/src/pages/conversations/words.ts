/** A conversation in words, and its address. */
import type { Schemas } from "@/api/client";

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
