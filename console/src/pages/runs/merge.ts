/** How readings of a list at different times come together. Only the order of the rows is known, not why it is so. */
import type { Schemas } from "@/api/client";

type Run = Schemas["RunRow"];
/** A row of the list: a run, or where its page was let go, only its id until the page is read again. */
export type Entry = Run | { run_id: string };

export function isRead(entry: Entry): entry is Run {
  return "status" in entry;
}

/** Let go of the rows of pages that are not to be kept. Their ids stay, so that no row below them moves. */
export function letGo(pages: Map<number, readonly Entry[]>, isKept: (page: number) => boolean): void {
  for (const [page, rows] of pages) {
    if (isKept(page) || rows.every((each) => !isRead(each))) continue;
    pages.set(
      page,
      rows.map(({ run_id }) => ({ run_id })),
    );
  }
}

/** Number of the page that has the row of this index, where each page `begins` at an index. */
export function pageAt(begins: readonly number[], index: number): number {
  let low = 0;
  let high = begins.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((begins[middle] ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The first page as it is shown: the latest reading, and rows of earlier ones that have come down from it since. */
export function joined(shown: readonly Run[], now: readonly Run[], isWhole: boolean): Run[] {
  if (isWhole) return [...now];
  const known = new Set(now.map((run) => run.run_id));
  // Among its neighbours a row that is missing no longer matches the filter; after the last of them it is only further down.
  const last = shown.findLastIndex((run) => known.has(run.run_id));
  return [...now, ...shown.slice(last + 1)];
}

/** Rows in front of the first that was shown before, of which `before` are the ids. */
export function freshOf(rows: readonly Entry[], before: readonly string[]): number {
  const known = new Set(before);
  return Math.max(
    0,
    rows.findIndex((run) => known.has(run.run_id)),
  );
}

/** All rows, each once, and the index at which each page begins. */
export function together(pages: Iterable<readonly Entry[]>): { rows: Entry[]; begins: number[] } {
  const known = new Set<string>();
  const rows: Entry[] = [];
  const begins: number[] = [];
  for (const page of pages) {
    begins.push(rows.length);
    for (const run of page) {
      if (known.has(run.run_id)) continue;
      known.add(run.run_id);
      rows.push(run);
    }
  }
  return { rows, begins };
}
