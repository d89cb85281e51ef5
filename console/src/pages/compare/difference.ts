/** How an operation of a run differs from the one beside it. */
import type { Schemas } from "@/api/client";
import { dollars, nanos } from "@/parts/amount";
import { duration, millis } from "@/parts/moment";

type Operation = Schemas["OperationRow"];

export interface Difference {
  /** "failed → completed"; null where both came to the same. */
  status: string | null;
  /** Dollars that the second cost more, below zero if it cost less; null for none. */
  usd: string | null;
  /** "+1.2 s"; null where one did not end, was not done again, or both took as long. */
  took: string | null;
  tries: string | null;
}

export function differenceOf(first: Operation, second: Operation): Difference {
  const more = nanos(second.cost_usd) - nanos(first.cost_usd);
  return {
    status: first.status === second.status ? null : `${words(first.status)} → ${words(second.status)}`,
    usd: more === 0n ? null : dollars(more),
    took: took(first, second),
    tries:
      first.tries === second.tries || first.reused || second.reused ? null : `${first.tries} → ${second.tries} tries`,
  };
}

function took(first: Operation, second: Operation): string | null {
  if (!first.ended_at || !second.ended_at || first.reused || second.reused) return null;
  const more = millis(second.ended_at) - millis(second.began_at) - (millis(first.ended_at) - millis(first.began_at));
  if (more === 0) return null;
  return `${more > 0 ? "+" : "−"}${duration(Math.abs(more))}`;
}

function words(status: string): string {
  return status.replaceAll("_", " ");
}
