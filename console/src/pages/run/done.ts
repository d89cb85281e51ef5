import { useList } from "@/api/queries";
import { useEverything } from "@/pages/run/everything";

const LIMIT = 1_000;

/** What the steps of a run did, as far as it is read. */
export function useDone(run: string) {
  const path = { run };
  const steps = useList("/api/v1/runs/{run}/steps", { path });
  const attempts = useEverything(useList("/api/v1/runs/{run}/attempts", { path, query: { limit: LIMIT } }));
  const operations = useEverything(useList("/api/v1/runs/{run}/operations", { path, query: { limit: LIMIT } }));
  return { steps, attempts, operations };
}
