/** Costs by day and group, exact to the nano-dollar. */
import { dollars, nanos } from "@/parts/amount";

const DAY_MS = 86_400_000;
const MOST_DAYS = 3_660;

export interface GroupOfCosts {
  name: string;
  total: string;
  /** Of each day. */
  amounts: string[];
}

/** Sums of the rows by group, the largest first. */
export function byGroup<R extends { day: string; cost_usd: string }>(
  rows: readonly R[],
  nameOf: (row: R) => string,
  days: readonly string[],
): GroupOfCosts[] {
  const place = new Map(days.map((day, index) => [day, index]));
  const groups = new Map<string, { total: bigint; amounts: bigint[] }>();
  for (const row of rows) {
    const name = nameOf(row);
    const group = groups.get(name) ?? { total: 0n, amounts: new Array<bigint>(days.length).fill(0n) };
    const amount = nanos(row.cost_usd);
    group.total += amount;
    const at = place.get(row.day);
    if (at !== undefined) group.amounts[at] = (group.amounts[at] ?? 0n) + amount;
    groups.set(name, group);
  }
  return [...groups]
    .sort(([one, a], [other, b]) => (a.total === b.total ? one.localeCompare(other) : a.total < b.total ? 1 : -1))
    .map(([name, { total, amounts }]) => ({ name, total: dollars(total), amounts: amounts.map(dollars) }));
}

/** The groups after the first few as one. */
export function folded(groups: readonly GroupOfCosts[], most: number): GroupOfCosts[] {
  if (groups.length <= most) return [...groups];
  const rest = groups.slice(most - 1);
  const sums = (rest[0]?.amounts ?? []).map((_, day) =>
    dollars(rest.reduce((sum, group) => sum + nanos(group.amounts[day] ?? "0"), 0n)),
  );
  const total = dollars(rest.reduce((sum, group) => sum + nanos(group.total), 0n));
  return [...groups.slice(0, most - 1), { name: `${rest.length} others`, total, amounts: sums }];
}

/** Days from the first to the last, both included, in UTC. */
export function daysBetween(first: string, last: string): string[] {
  const found: string[] = [];
  const end = Date.parse(last);
  for (let at = Date.parse(first); at <= end && found.length < MOST_DAYS; at += DAY_MS) found.push(dayOf(at));
  return found;
}

export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
