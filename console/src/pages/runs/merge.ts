/** How pages that were read at different times come together. Ids of runs rise with the time of their start. */
import type { Schemas } from "@/api/client";

type Run = Schemas["RunRow"];

/** The first page as it is shown: its own rows, and those that have come down from it since. */
export function joined(shown: readonly Run[], now: readonly Run[], isWhole: boolean): Run[] {
  const oldest = now.at(-1)?.run_id;
  const known = new Set(now.map((run) => run.run_id));
  // One that is missing among its neighbours no longer matches the filter.
  const below = shown.filter(
    (run) => !known.has(run.run_id) && !isWhole && oldest !== undefined && run.run_id < oldest,
  );
  return [...now, ...below];
}

/** Rows in front of the first that was shown. */
export function freshOf(rows: readonly Run[], first: string | null): number {
  if (first === null) return 0;
  const at = rows.findIndex((run) => run.run_id <= first);
  return at === -1 ? rows.length : at;
}
