/**
 * One stream of events, reconnected by itself: after an end at once, after failures later and later, and at once when
 * something wakes it. EventSource is not enough: after one answer 503 it is closed for good, and it notices no silence.
 */
import { Lines } from "@/api/stream/lines";

export type State = "live" | "lost" | "signed-out";
export type Told =
  | { kind: "state"; state: State; asOf: number }
  /** These runs have new events. */
  | { kind: "changed"; runs: string[] }
  /** Events may have been missed: what is shown must be read again. */
  | { kind: "missed" };

export interface Surroundings {
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  now: () => number;
  random: () => number;
}

const URL_ = "/api/v1/events";
/** The server sends a comment after 2 s of silence. */
export const SILENCE_MS = 4_500;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
const BATCH_MS = 50;
const HTTP = { unauthorized: 401, gone: 410, badRequest: 400, unprocessable: 422 };

const BROWSER: Surroundings = {
  fetch: (url, init) => fetch(url, init),
  now: () => Date.now(),
  random: () => Math.random(),
};

export class Stream {
  private last: string | null = null;
  private isRunning = false;
  private failures = 0;
  private state: State = "live";
  private asOf: number;
  private connection: AbortController | null = null;
  private awaken: (() => void) | null = null;
  private changed = new Set<string>();
  private batch: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly tell: (told: Told) => void,
    private readonly around: Surroundings = BROWSER,
  ) {
    this.asOf = around.now();
  }

  get now(): Told {
    return { kind: "state", state: this.state, asOf: this.asOf };
  }

  start(): void {
    if (this.isRunning) return;
    this.isRunning = true;
    void this.run();
  }

  stop(): void {
    this.isRunning = false;
    this.connection?.abort();
    this.awaken?.();
  }

  /** Try now: the network is back, the page is looked at, or someone has signed in. */
  wake(): void {
    this.failures = 0;
    this.awaken?.();
  }

  private async run(): Promise<void> {
    while (this.isRunning) {
      const ended = await this.once();
      if (!this.isRunning) return;
      if (ended === "closed") {
        await this.wait(FIRST_WAIT_MS * this.around.random());
        continue;
      }
      this.become(ended === "unauthorized" ? "signed-out" : "lost");
      this.failures += 1;
      const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures);
      await this.wait(longest * (0.5 + this.around.random() / 2));
    }
  }

  /** Connect, and read until the end: `closed` after it has been live, or how it failed. */
  private async once(): Promise<"closed" | "failed" | "unauthorized"> {
    const connection = new AbortController();
    this.connection = connection;
    let silence = setTimeout(() => connection.abort(), SILENCE_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => connection.abort(), SILENCE_MS);
      this.asOf = this.around.now();
    };
    let wasLive = false;
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (this.last !== null) headers["Last-Event-ID"] = this.last;
      const url = this.last === null ? `${URL_}?cursor=now` : URL_;
      const response = await this.around.fetch(url, { headers, cache: "no-store", signal: connection.signal });
      if (!response.ok || !response.body) return this.refused(response);
      heard();
      // What a page has read before the stream's first place may be older than that.
      if (this.last === null) this.tell({ kind: "missed" });
      wasLive = true;
      this.failures = 0;
      this.become("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const lines = new Lines();
      while (true) {
        const { done, value } = await reader.read();
        if (done) return "closed";
        heard();
        for (const each of lines.take(value)) this.take(each.event, each.data, each.id);
      }
    } catch {
      return wasLive && !connection.signal.aborted ? "closed" : "failed";
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
  }

  private refused(response: Response): "failed" | "unauthorized" {
    const { status } = response;
    if (status === HTTP.unauthorized) return "unauthorized";
    // The place is of another store, or no longer kept: go on from now, and read everything again.
    if (status === HTTP.gone || status === HTTP.badRequest || status === HTTP.unprocessable) this.last = null;
    return "failed";
  }

  private take(event: string, data: string, id: string | null): void {
    if (event !== "message") return;
    if (id !== null) this.last = id;
    const run = /"run_id":"([^"\\]+)"/.exec(data)?.[1];
    if (run === undefined) return;
    this.changed.add(run);
    this.batch ??= setTimeout(() => {
      this.batch = null;
      const runs = [...this.changed];
      this.changed.clear();
      this.tell({ kind: "changed", runs });
    }, BATCH_MS);
  }

  private become(state: State): void {
    if (state === this.state) return;
    this.state = state;
    this.tell(this.now);
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      const self = this;
      function done() {
        clearTimeout(timer);
        self.awaken = null;
        resolve();
      }
      this.awaken = done;
    });
  }
}
