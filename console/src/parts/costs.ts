/** Sums of costs as the server has them, placed by time and group. Nothing is added up here. */
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MOST_TIMES = 3_660;
const ZERO = "0.00";

export type Unit = "day" | "hour";

export interface GroupOfCosts {
  name: string;
  /** At each time. */
  amounts: string[];
}

/** The amounts of each group at these times, groups in the order of `names`; those that are not among them come last. */
export function placed<R extends { cost_usd: string }>(
  rows: readonly R[],
  nameOf: (row: R) => string,
  timeOf: (row: R) => string | null,
  times: readonly string[],
  names: readonly string[],
): GroupOfCosts[] {
  const place = new Map(times.map((time, index) => [time, index]));
  const groups = new Map<string, string[]>();
  for (const row of rows) {
    const name = nameOf(row);
    const amounts = groups.get(name) ?? new Array<string>(times.length).fill(ZERO);
    const at = place.get(timeOf(row) ?? "");
    if (at !== undefined) amounts[at] = row.cost_usd;
    groups.set(name, amounts);
  }
  const rank = (name: string) => (names.includes(name) ? names.indexOf(name) : names.length);
  return [...groups].map(([name, amounts]) => ({ name, amounts })).sort((a, b) => rank(a.name) - rank(b.name));
}

/** Days, or hours, from the first day to the last, both included, in UTC. */
export function timesBetween(first: string, last: string, unit: Unit): string[] {
  const found: string[] = [];
  const end = Date.parse(last) + (unit === "hour" ? DAY_MS - HOUR_MS : 0);
  const step = unit === "hour" ? HOUR_MS : DAY_MS;
  for (let at = Date.parse(first); at <= end && found.length < MOST_TIMES; at += step) {
    found.push(unit === "hour" ? hourOf(at) : dayOf(at));
  }
  return found;
}

export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** Like `2026-11-28T14`. */
export function hourOf(at: number): string {
  return new Date(at).toISOString().slice(0, 13);
}

/** Milliseconds of the begin of a day or an hour. */
export function beginOf(time: string): number {
  return Date.parse(time.length > 10 ? `${time}:00Z` : time);
}
