/** A payload that is read in pieces: here if it is small, beside the page if it is large or has still to be fetched. */
import { Document, type Found, type Lines, valueUnder } from "./document";
import type { Answer, Asked } from "./messages";

export interface Opened {
  lines: Lines;
  /** Number of characters. */
  length: number;
}

export interface Source {
  open(): Promise<Opened>;
  read(first: number, last: number, most: number): Promise<string[]>;
  find(words: string): Promise<Found>;
  text(): Promise<string>;
  close(): void;
}

export type Given = { url: string; keys?: readonly string[] } | { text: string };
const LARGE = 200_000;

export function sourceOf(given: Given): Source {
  return "text" in given && given.text.length < LARGE ? new Near(given.text) : new Beside(given);
}

class Near implements Source {
  readonly #document: Document;

  constructor(text: string) {
    this.#document = new Document(text);
  }

  async open() {
    return { lines: this.#document.lines, length: this.#document.text.length };
  }

  async read(first: number, last: number, most: number) {
    return this.#document.read(first, last, most);
  }

  async find(words: string) {
    return this.#document.find(words);
  }

  async text() {
    return this.#document.text;
  }

  close() {}
}

class Beside implements Source {
  readonly #worker = new Worker(new URL("./payload.worker.ts", import.meta.url), { type: "module" });
  readonly #waiting = new Map<number, { done: (answer: Answer) => void; failed: (error: Error) => void }>();
  #next = 0;

  constructor(readonly given: Given) {
    this.#worker.addEventListener("message", (event: MessageEvent<Answer>) => {
      const found = this.#waiting.get(event.data.id);
      this.#waiting.delete(event.data.id);
      if (event.data.problem) found?.failed(new Error(event.data.problem));
      else found?.done(event.data);
    });
    this.#worker.addEventListener("error", () => this.#fail("The page could not start its reader. Reload the page."));
  }

  #fail(words: string) {
    for (const each of this.#waiting.values()) each.failed(new Error(words));
    this.#waiting.clear();
  }

  #ask(asked: Asked["asked"]): Promise<Answer> {
    this.#next += 1;
    const id = this.#next;
    return new Promise((done, failed) => {
      this.#waiting.set(id, { done, failed });
      this.#worker.postMessage({ id, asked } satisfies Asked);
    });
  }

  async open() {
    const { lines, length = 0 } = await this.#ask({ kind: "open", ...this.given });
    if (!lines) throw new Error("Nothing came back.");
    return { lines, length };
  }

  async read(first: number, last: number, most: number) {
    return (await this.#ask({ kind: "read", first, last, most })).texts ?? [];
  }

  async find(words: string) {
    return (await this.#ask({ kind: "find", words })).found ?? { lines: new Int32Array(), count: 0 };
  }

  async text() {
    return (await this.#ask({ kind: "text" })).text ?? "";
  }

  close() {
    this.#worker.terminate();
  }
}

/** The value of one key of an answer, as a source of its own. */
export function textOf(text: string, keys: readonly string[]): string {
  return valueUnder(text, keys) ?? "null";
}
