/** The worker that all tabs of a browser share: one stream, however many tabs. Over HTTP/1.1 six would block the origin. */
import { Stream, type Told } from "@/api/stream/stream";

export type Asked = { kind: "hello" } | { kind: "wake" } | { kind: "bye" };

const ports = new Set<MessagePort>();
const stream = new Stream((told: Told) => {
  for (const port of ports) port.postMessage(told);
});

function take(port: MessagePort, asked: Asked): void {
  if (asked.kind === "bye") {
    ports.delete(port);
    if (ports.size === 0) stream.stop();
    return;
  }
  if (asked.kind === "hello") {
    ports.add(port);
    stream.start();
    port.postMessage(stream.now);
    return;
  }
  stream.wake();
}

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  port.onmessage = (message: MessageEvent<Asked>) => take(port, message.data);
});
