/** How readings of a list at different times come together. Only the order of the rows is known, not why it is so. */
import type { Schemas } from "@/api/client";

type Run = Schemas["RunRow"];

/** The first page as it is shown: the latest reading, and rows of earlier ones that have come down from it since. */
export function joined(shown: readonly Run[], now: readonly Run[], isWhole: boolean): Run[] {
  if (isWhole) return [...now];
  const known = new Set(now.map((run) => run.run_id));
  // Among its neighbours a row that is missing no longer matches the filter; after the last of them it is only further down.
  const last = shown.findLastIndex((run) => known.has(run.run_id));
  return [...now, ...shown.slice(last + 1)];
}

/** Rows in front of the first that was shown before, of which `before` are the ids. */
export function freshOf(rows: readonly Run[], before: readonly string[]): number {
  const known = new Set(before);
  return Math.max(
    0,
    rows.findIndex((run) => known.has(run.run_id)),
  );
}

/** All rows, each once. */
export function together(pages: Iterable<readonly Run[]>): Run[] {
  const known = new Set<string>();
  const all: Run[] = [];
  for (const rows of pages) {
    for (const run of rows) {
      if (known.has(run.run_id)) continue;
      known.add(run.run_id);
      all.push(run);
    }
  }
  return all;
}
