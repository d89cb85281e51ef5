/** This tab's end of the stream: it keeps the connection's state, and has queries read again that events concern. */
import type { Query } from "@tanstack/react-query";
import { toSignIn } from "@/api/client";
import { onWake, streamed } from "@/api/connection";
import { queries } from "@/api/queries";
import { isAffected } from "@/api/stream/affected";
import type { Asked } from "@/api/stream/shared";
import { Stream, type Told } from "@/api/stream/stream";

const EVERY_MS = 500;
/** Of a list with more pages only the reader asks for a new reading: all its pages would be read again. */
const MOST_PAGES = 3;

type Listener = (runs: ReadonlySet<string> | "all") => void;
const listeners = new Set<Listener>();

/** Hear of runs with new events; `all` where events may have been missed. */
export function onChanged(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let changed: Set<string> | "all" = new Set();
let timer: ReturnType<typeof setTimeout> | null = null;
let flushedAt = 0;

function take(told: Told): void {
  if (told.kind === "state") {
    if (told.state === "signed-out") toSignIn();
    else streamed(told.state, told.asOf);
    return;
  }
  const runs = told.kind === "missed" ? ("all" as const) : new Set(told.runs);
  add(runs);
  for (const each of listeners) each(runs);
  schedule();
}

function add(runs: ReadonlySet<string> | "all"): void {
  if (runs === "all") changed = "all";
  else if (changed !== "all") for (const run of runs) changed.add(run);
}

function schedule(): void {
  if (timer !== null || document.hidden) return;
  timer = setTimeout(flush, Math.max(0, flushedAt + EVERY_MS - Date.now()));
}

function flush(): void {
  timer = null;
  flushedAt = Date.now();
  const runs = changed;
  changed = new Set();
  let isLate = false;
  const isDue = (query: Query) => {
    if (!(runs === "all" ? String(query.queryKey[0]).startsWith("/api/") : isAffected(query.queryKey, runs)))
      return false;
    // What is being read was asked for before the event: once more, afterwards.
    if (query.state.fetchStatus === "fetching" && query.getObserversCount() > 0) {
      isLate = true;
      return false;
    }
    return true;
  };
  const due = queries.getQueryCache().findAll({ predicate: isDue });
  for (const query of due) {
    const pages = (query.state.data as { pages?: unknown[] } | undefined)?.pages?.length ?? 1;
    void queries.invalidateQueries({
      queryKey: query.queryKey,
      exact: true,
      refetchType: pages > MOST_PAGES ? "none" : "active",
    });
  }
  if (!isLate) return;
  add(runs);
  schedule();
}

function onVisible(): void {
  if (document.hidden) return;
  send({ kind: "wake" });
  if (changed === "all" || changed.size > 0) schedule();
}

let send: (asked: Asked) => void = () => {};
let isLive = false;

/** Begin to listen. Once for a tab. */
export function goLive(): void {
  if (isLive) {
    send({ kind: "wake" });
    return;
  }
  isLive = true;
  send = typeof SharedWorker === "undefined" ? own() : shared();
  onWake(() => send({ kind: "wake" }));
  document.addEventListener("visibilitychange", onVisible);
  window.addEventListener("online", () => send({ kind: "wake" }));
  window.addEventListener("pagehide", () => send({ kind: "bye" }));
  window.addEventListener("pageshow", (event) => event.persisted && send({ kind: "hello" }));
  send({ kind: "hello" });
}

function shared(): (asked: Asked) => void {
  const worker = new SharedWorker(new URL("./shared.ts", import.meta.url), { type: "module", name: "holdfast" });
  worker.port.onmessage = (message: MessageEvent<Told>) => take(message.data);
  return (asked) => worker.port.postMessage(asked);
}

/** Where tabs cannot share a worker: a stream of this tab, while it is looked at. */
function own(): (asked: Asked) => void {
  const stream = new Stream(take);
  document.addEventListener("visibilitychange", () => (document.hidden ? stream.stop() : stream.start()));
  return (asked) => {
    if (asked.kind === "bye") stream.stop();
    else if (asked.kind === "hello") stream.start();
    else stream.wake();
  };
}
