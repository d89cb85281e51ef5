/** Times in words: relative, exact with their zone, and durations. */
import type { Zone } from "@/parts/preferences";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function millis(at: string | number): number {
  return typeof at === "number" ? at : Date.parse(at);
}

/** `37 ms`, `2 m 14 s`, `4 h 02 m`, `3 d 4 h`: two units at most. */
export function duration(ms: number): string {
  const size = Math.max(0, ms);
  if (size < SECOND) return `${Math.floor(size)} ms`;
  if (size < 10 * SECOND) return `${(Math.floor(size / 100) / 10).toFixed(1)} s`;
  if (size < MINUTE) return `${Math.floor(size / SECOND)} s`;
  if (size < HOUR) return `${Math.floor(size / MINUTE)} m ${two((size % MINUTE) / SECOND)} s`;
  if (size < DAY) return `${Math.floor(size / HOUR)} h ${two((size % HOUR) / MINUTE)} m`;
  const hours = Math.floor((size % DAY) / HOUR);
  return `${Math.floor(size / DAY)} d${hours ? ` ${hours} h` : ""}`;
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}

/** `just now`, `12 s ago`, `in 5 h 20 m`, `in 2 d 20 h`, `14 d ago`: rounded, with a second unit where the first is small. */
export function relative(at: number, now: number): string {
  const away = Math.abs(now - at);
  if (away < 2 * SECOND) return "just now";
  return at <= now ? `${far(away)} ago` : `in ${far(away)}`;
}

function far(away: number): string {
  const [seconds, minutes, hours] = [away / SECOND, away / MINUTE, away / HOUR].map(Math.round) as [
    number,
    number,
    number,
  ];
  if (seconds < 60) return `${seconds} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 10 * 60) return inTwo(Math.floor(minutes / 60), "h", minutes % 60, "m");
  if (hours < 24) return `${hours} h`;
  if (hours < 10 * 24) return inTwo(Math.floor(hours / 24), "d", hours % 24, "h");
  return `${Math.round(away / DAY)} d`;
}

function inTwo(first: number, unit: string, second: number, small: string): string {
  return second === 0 ? `${first} ${unit}` : `${first} ${unit} ${second} ${small}`;
}

/** `2026-11-28 14:02:07.250 UTC`, or with the offset of the local zone. */
export function exact(at: number, zone: Zone): string {
  const date = new Date(at);
  if (Number.isNaN(at)) return "unknown time";
  if (zone === "utc") return `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`;
  const offset = -date.getTimezoneOffset();
  const local = new Date(at + offset * MINUTE).toISOString().replace("T", " ").replace("Z", "");
  const sign = offset < 0 ? "−" : "+";
  return `${local} ${sign}${two(Math.abs(offset) / 60)}:${two(Math.abs(offset) % 60)}`;
}

/** `14:02:07` in the zone. */
export function clock(at: number, zone: Zone): string {
  return exact(at, zone).slice(11, 19);
}
