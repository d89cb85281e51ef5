import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SILENCE_MS, Stream, type Told } from "@/api/stream/stream";

/** A server whose connections the test opens, feeds, closes and breaks. */
class Server {
  asked: { url: string; last: string | null }[] = [];
  status: number | null = 200;
  private feeds: ReadableStreamDefaultController<Uint8Array>[] = [];

  fetch = async (url: string, init: RequestInit): Promise<Response> => {
    this.asked.push({ url, last: new Headers(init.headers).get("last-event-id") });
    if (this.status === null) throw new TypeError("refused");
    if (this.status !== 200) return new Response("", { status: this.status });
    const body = new ReadableStream<Uint8Array>({
      start: (feed) => {
        this.feeds.push(feed);
        init.signal?.addEventListener("abort", () => {
          try {
            feed.error(new DOMException("aborted", "AbortError"));
          } catch {
            // It is over already.
          }
        });
      },
    });
    return new Response(body);
  };

  private get feed() {
    const last = this.feeds.at(-1);
    if (!last) throw new Error("nobody is connected");
    return last;
  }

  send(id: string, run: string): void {
    this.feed.enqueue(new TextEncoder().encode(`id: ${id}\ndata: {"run_id":"${run}","seq":1}\n\n`));
  }

  close(): void {
    this.feed.close();
  }
}

const server = { now: new Server() };
let told: Told[] = [];
let stream: Stream;

beforeEach(() => {
  vi.useFakeTimers();
  server.now = new Server();
  told = [];
  stream = new Stream((each) => told.push(each), {
    fetch: (url, init) => server.now.fetch(url, init),
    now: () => Date.now(),
    random: () => 0.5,
  });
  stream.start();
});

afterEach(() => {
  stream.stop();
  vi.useRealTimers();
});

const states = () => told.flatMap((each) => (each.kind === "state" ? each.state : []));

test("a stream that ends is taken up at once after its last event, and nobody is alarmed", async () => {
  await vi.advanceTimersByTimeAsync(10);
  server.now.send("7", "a");
  await vi.advanceTimersByTimeAsync(60);
  server.now.close();
  await vi.advanceTimersByTimeAsync(300);
  expect(server.now.asked).toEqual([
    { url: "/api/v1/events?cursor=now", last: null },
    { url: "/api/v1/events", last: "7" },
  ]);
  expect(told).toEqual([{ kind: "missed" }, { kind: "changed", runs: ["a"] }]);
});

test("a server that is away is asked again later and later, and its return is told once", async () => {
  await vi.advanceTimersByTimeAsync(10);
  server.now.status = null;
  server.now.close();
  await vi.advanceTimersByTimeAsync(20_000);
  const asked = server.now.asked.length;
  expect(asked).toBeGreaterThan(4);
  expect(asked).toBeLessThan(12);
  server.now.status = 503;
  stream.wake();
  await vi.advanceTimersByTimeAsync(10);
  expect(server.now.asked.length).toBe(asked + 1);
  server.now.status = 200;
  stream.wake();
  await vi.advanceTimersByTimeAsync(10);
  expect(states()).toEqual(["lost", "live"]);
  expect(told.filter((each) => each.kind === "missed")).toHaveLength(2);
});

test("silence is a loss", async () => {
  await vi.advanceTimersByTimeAsync(10);
  server.now.send("1", "a");
  server.now.status = null;
  await vi.advanceTimersByTimeAsync(SILENCE_MS + 500);
  expect(states()).toEqual(["lost"]);
});

test("a place that is no longer kept is given up, and everything read again", async () => {
  await vi.advanceTimersByTimeAsync(10);
  server.now.send("1", "a");
  await vi.advanceTimersByTimeAsync(60);
  server.now.status = 410;
  server.now.close();
  await vi.advanceTimersByTimeAsync(300);
  server.now.status = 200;
  await vi.advanceTimersByTimeAsync(2_000);
  expect(server.now.asked.at(-1)).toEqual({ url: "/api/v1/events?cursor=now", last: null });
  expect(told.at(-1)).toMatchObject({ kind: "state", state: "live" });
  expect(told.filter((each) => each.kind === "missed")).toHaveLength(2);
});

test("one who is not signed in is told so", async () => {
  await vi.advanceTimersByTimeAsync(10);
  server.now.status = 401;
  server.now.close();
  await vi.advanceTimersByTimeAsync(300);
  expect(states()).toEqual(["signed-out"]);
});
