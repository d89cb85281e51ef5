/** The state of the way to the server: of the stream of events, and of the last answers. */
export interface Connection {
  state: "live" | "lost";
  /** Time of the last that the server sent, in milliseconds since 1970. What is shown is as of then. */
  asOf: number;
}

let now: Connection = { state: "live", asOf: Date.now() };
const listeners = new Set<() => void>();
let wake: (() => void) | null = null;

function become(state: Connection["state"], asOf: number): void {
  if (state === now.state) {
    now.asOf = Math.max(asOf, now.asOf);
    return;
  }
  now = { state, asOf };
  for (const each of listeners) each();
}

export function answered(): void {
  // While the stream is away its own return counts: one answer may come from a server that is just ending.
  if (wake === null) become("live", Date.now());
  else if (now.state === "lost") wake();
  else now.asOf = Date.now();
}

export function failed(): void {
  wake?.();
  if (wake === null) become("lost", now.asOf);
}

/** The stream's word. */
export function streamed(state: Connection["state"], asOf: number): void {
  become(state, asOf);
}

/** Set while a stream is there: has it try at once. */
export function onWake(run: (() => void) | null): void {
  wake = run;
}

export function connection(): Connection {
  return now;
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
