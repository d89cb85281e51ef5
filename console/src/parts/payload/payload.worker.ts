/** Reads, splits and searches a large payload beside the page, which stays free. */
import { Document, valueUnder } from "./document";
import type { Answer, Asked } from "./messages";

let opened: Document | null = null;

const tell = (answer: Answer, transfer: Transferable[] = []) =>
  (self as unknown as { postMessage(message: Answer, transfer: Transferable[]): void }).postMessage(answer, transfer);

self.addEventListener("message", async (event: MessageEvent<Asked>) => {
  const { id, asked } = event.data;
  try {
    if (asked.kind === "open") {
      const text = "text" in asked ? asked.text : await fetched(asked.url);
      const value = asked.keys ? (valueUnder(text, asked.keys) ?? "null") : text;
      opened = new Document(value);
      // Copies: the worker needs its own.
      const lines = { ...opened.lines };
      tell({ id, lines, length: value.length });
    } else if (!opened) throw new Error("Nothing is open.");
    else if (asked.kind === "read") tell({ id, texts: opened.read(asked.first, asked.last, asked.most) });
    else if (asked.kind === "find") tell({ id, found: opened.find(asked.words) });
    else tell({ id, text: opened.text });
  } catch (problem) {
    tell({ id, problem: problem instanceof Error ? problem.message : String(problem) });
  }
});

async function fetched(url: string): Promise<string> {
  const response = await fetch(url, { credentials: "same-origin" });
  const text = await response.text();
  if (response.ok) return text;
  let words = `The server answered ${response.status}.`;
  try {
    words = JSON.parse(text).detail || words;
  } catch {
    // A proxy's page, not our server's answer.
  }
  throw new Error(words);
}
