/** What a run says meanwhile, as it comes: the pieces of its streams, each once, from the first on. */
import type { Schemas } from "@/api/client";
import { answered, failed } from "@/api/connection";
import { read } from "@/api/exact";
import { Lines } from "@/api/stream/lines";
import { acting } from "@/parts/acting";

export type Piece = Schemas["StreamRow"];

export interface Listener {
  /** Pieces in their order. */
  onPieces: (pieces: readonly Piece[]) => void;
  /** The run has ended: nothing more will come. */
  onEnd: () => void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
/** The server sends a comment at least that often. */
const SILENT_MS = 45_000;
const HTTP_GONE = 410;

/**
 * Follow the streams of a run until it has ended or the returned function is called. A lost connection is made again where it
 * was; in a hidden tab it rests, since a browser has few connections to one server.
 */
export function followRun(run: string, listener: Listener): () => void {
  let last: string | null = null;
  let isOver = false;
  let wait = FIRST_WAIT_MS;
  let open: AbortController | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const connect = async () => {
    if (isOver || open || document.hidden) return;
    const mine = new AbortController();
    open = mine;
    try {
      await listen(mine);
    } catch {
      if (!mine.signal.aborted) failed();
    }
    if (open === mine) open = null;
    if (!isOver && !document.hidden) {
      timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  };

  const listen = async (mine: AbortController) => {
    const { name, roles } = acting();
    const response = await fetch(`/api/v1/runs/${encodeURIComponent(run)}/stream`, {
      headers: {
        Accept: "text/event-stream",
        ...(last ? { "Last-Event-ID": last } : {}),
        ...(name ? { "Holdfast-As": name } : {}),
        ...(roles ? { "Holdfast-Roles": roles } : {}),
      },
      credentials: "same-origin",
      signal: mine.signal,
    });
    answered();
    // Nothing is left of it, or it is not for this caller: the conversation itself has the reply.
    if (response.status === 204 || response.status === HTTP_GONE || (response.status >= 400 && response.status < 500)) {
      isOver = true;
      listener.onEnd();
      return;
    }
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const lines = new Lines();
    for (;;) {
      const { done, value } = await within(reader.read(), SILENT_MS);
      if (done) return;
      wait = FIRST_WAIT_MS;
      const pieces: Piece[] = [];
      let isEnd = false;
      for (const message of lines.take(decoder.decode(value, { stream: true }))) {
        if (message.id) last = message.id;
        if (message.event === "end") isEnd = true;
        else if (message.event === "message") pieces.push(read(message.data) as Piece);
      }
      if (pieces.length > 0) listener.onPieces(pieces);
      if (isEnd) {
        isOver = true;
        listener.onEnd();
        mine.abort();
        return;
      }
    }
  };

  const wake = () => {
    if (document.hidden) {
      open?.abort();
      open = null;
      return;
    }
    clearTimeout(timer);
    wait = FIRST_WAIT_MS;
    void connect();
  };
  document.addEventListener("visibilitychange", wake);
  window.addEventListener("online", wake);
  void connect();
  return () => {
    isOver = true;
    clearTimeout(timer);
    open?.abort();
    document.removeEventListener("visibilitychange", wake);
    window.removeEventListener("online", wake);
  };
}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the stream is silent")), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
