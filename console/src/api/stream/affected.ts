/** Which queries a change of runs concerns. */
const RUN = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i;

/** Paths whose answers do not follow from events of runs. */
const APART: ReadonlySet<string> = new Set([
  "/api/v1/me",
  "/api/v1/keys",
  "/api/v1/sessions",
  "/api/v1/audit",
  "/api/v1/audit/head",
]);

/** True if a query of this key may have another answer after new events of these runs. */
export function isAffected(key: readonly unknown[], runs: ReadonlySet<string>): boolean {
  const [path, ...params] = key;
  if (typeof path !== "string" || !path.startsWith("/api/") || APART.has(path)) return false;
  const named = params.flatMap(runsIn);
  return named.length === 0 || named.some((run) => runs.has(run));
}

/** Runs that parameters name: their ids, and those of their gates and calls, which begin with the run's. */
function runsIn(params: unknown): string[] {
  if (typeof params !== "object" || params === null) return [];
  return Object.values(params).flatMap((value) => {
    const run = typeof value === "string" ? RUN.exec(value)?.[0] : undefined;
    return run === undefined ? [] : [run.toLowerCase()];
  });
}
