/** Words and numbers of a pool. */
import type { Schemas } from "@/api/client";

export type PoolRow = Schemas["PoolRow"];
export type PoolWhole = Schemas["PoolWhole"];

export function addressOf(name: string): string {
  return `/pools/${encodeURIComponent(name)}`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** `8 at a time`, `50 a second, 10 at once`. */
export function limitOf(pool: PoolRow): string {
  if (pool.kind === "slots") return `${count(pool.limit)} at a time`;
  const burst = pool.burst === null ? "" : `, ${count(pool.burst)} at once`;
  return `${count(pool.limit)} ${every(pool.per_s ?? 1)}${burst}`;
}

function every(seconds: number): string {
  if (seconds === 1) return "a second";
  if (seconds === 60) return "a minute";
  return seconds === 3600 ? "an hour" : `in ${count(seconds)} s`;
}

/** `requests of openai`, or that steps name it. */
export function countsOf(pool: PoolRow): string {
  return pool.counts ? `${pool.counts.replaceAll("_", " ")} of ${pool.of ?? ""}` : "what steps ask for";
}
