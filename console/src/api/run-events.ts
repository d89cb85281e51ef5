/** The history of one run, whole and live: read page by page from its last event on, whenever the stream reports new ones. */
import { useEffect, useState, useSyncExternalStore } from "react";
import { send } from "@/api/client";
import { EventLog, type History, type RunEvent } from "@/api/event-log";
import { onChanged } from "@/api/stream/live";

const PAGE = 1_000;

function logOf(run: string): EventLog {
  return new EventLog(async (after) => {
    const query = { limit: PAGE, ...(after === 0 ? {} : { cursor: String(after) }) };
    const { data } = await send("GET", "/api/v1/runs/{run}/events", { params: { path: { run }, query } });
    return data as { rows: RunEvent[]; cursor: string | null };
  });
}

/** All events of a run, those to come included. */
export function useRunEvents(run: string): History {
  const [log, setLog] = useState(() => ({ run, log: logOf(run) }));
  if (log.run !== run) setLog({ run, log: logOf(run) });
  const { log: current } = log;
  useEffect(() => {
    void current.catchUp();
    return onChanged((runs) => {
      if (runs === "all" || runs.has(run)) void current.catchUp();
    });
  }, [current, run]);
  return useSyncExternalStore(current.subscribe, () => current.snapshot);
}
