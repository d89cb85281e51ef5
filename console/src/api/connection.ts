/** The state of the way to the server, as the last answers show it. */
export interface Connection {
  state: "live" | "lost";
  /** Time of the last answer, in milliseconds since 1970. What is shown is as of then. */
  asOf: number;
}

let now: Connection = { state: "live", asOf: Date.now() };
const listeners = new Set<() => void>();

function become(next: Connection): void {
  const changed = next.state !== now.state;
  now = changed ? next : now;
  if (!changed) now.asOf = next.asOf;
  if (changed) for (const each of listeners) each();
}

export function answered(): void {
  become({ state: "live", asOf: Date.now() });
}

export function failed(): void {
  become({ state: "lost", asOf: now.asOf });
}

export function connection(): Connection {
  return now;
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
