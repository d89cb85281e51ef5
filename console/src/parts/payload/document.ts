/**
 * JSON as lines, without building a tree of it: each line is a piece of the text as it was stored. So 5 MB open in a moment,
 * numbers keep their digits, and what is copied is what is stored.
 */
export interface Lines {
  /** Begin and end of each line in the text. */
  from: Int32Array<ArrayBuffer>;
  to: Int32Array<ArrayBuffer>;
  depth: Uint16Array<ArrayBuffer>;
  /** For a line that opens an object or a list: the line that closes it; otherwise -1. */
  closes: Int32Array<ArrayBuffer>;
}

export interface Found {
  /** Lines with the text, each once, in order. */
  lines: Int32Array<ArrayBuffer>;
  /** How often it occurs. */
  count: number;
}

const QUOTE = 34;
const BACKSLASH = 92;
const COMMA = 44;
const COLON = 58;
const OPENING = new Set([123, 91]);
const CLOSING = new Set([125, 93]);

export class Document {
  readonly lines: Lines;
  #lower: string | null = null;

  constructor(readonly text: string) {
    this.lines = split(text);
  }

  get size(): number {
    return this.lines.from.length;
  }

  /** The text of some lines. A very long one is cut. */
  read(first: number, last: number, most: number): string[] {
    const found: string[] = [];
    for (let line = first; line < Math.min(last, this.size); line += 1) {
      const from = this.lines.from[line] ?? 0;
      found.push(this.text.slice(from, Math.min(this.lines.to[line] ?? from, from + most)));
    }
    return found;
  }

  find(words: string): Found {
    this.#lower ??= this.text.toLowerCase();
    const lower = this.#lower;
    const sought = words.toLowerCase();
    const lines: number[] = [];
    let count = 0;
    let line = 0;
    for (let at = sought ? lower.indexOf(sought) : -1; at !== -1; at = lower.indexOf(sought, at + sought.length)) {
      count += 1;
      while (line < this.size - 1 && (this.lines.to[line] ?? 0) <= at) line += 1;
      if (lines.at(-1) !== line) lines.push(line);
    }
    return { lines: Int32Array.from(lines), count };
  }
}

function split(text: string): Lines {
  const from: number[] = [];
  const to: number[] = [];
  const depth: number[] = [];
  const closes: number[] = [];
  const open: number[] = [];
  let begin = 0;
  const end = (at: number, level: number) => {
    from.push(begin);
    to.push(at);
    depth.push(level);
    closes.push(-1);
    begin = at;
  };
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = afterString(text, at);
    else if (OPENING.has(code)) {
      at += 1;
      while (text.charCodeAt(at) <= 32) at += 1;
      if (CLOSING.has(text.charCodeAt(at))) at += 1;
      else {
        end(at, open.length);
        open.push(from.length - 1);
      }
    } else if (CLOSING.has(code)) {
      if (!isBlank(text, begin, at)) end(at, open.length);
      const opened = open.pop();
      at += 1;
      if (text.charCodeAt(at) === COMMA) at += 1;
      if (opened !== undefined) closes[opened] = from.length;
      begin = firstOf(text, begin, at);
      end(at, open.length);
    } else if (code === COMMA) {
      at += 1;
      if (isBlank(text, begin, at - 1)) continue;
      end(at, open.length);
    } else {
      at += 1;
      if (code <= 32 && begin === at - 1) begin = at;
    }
  }
  if (!isBlank(text, begin, at)) end(at, open.length);
  return {
    from: Int32Array.from(from),
    to: Int32Array.from(to),
    depth: Uint16Array.from(depth),
    closes: Int32Array.from(closes),
  };
}

function isBlank(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (text.charCodeAt(at) > 32) return false;
  return true;
}

function firstOf(text: string, from: number, to: number): number {
  let at = from;
  while (at < to && text.charCodeAt(at) <= 32) at += 1;
  return at;
}

/** The place after a string that begins at `at`. */
function afterString(text: string, at: number): number {
  let end = at;
  do {
    end = text.indexOf('"', end + 1);
    if (end === -1) return text.length;
  } while (isEscaped(text, end));
  return end + 1;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
  return slashes % 2 === 1;
}

/** The text of the first of some keys that an object has. Null if it has none. */
export function valueUnder(text: string, keys: readonly string[]): string | null {
  const found = new Map<string, string>();
  let depth = 0;
  let at = 0;
  let key: string | null = null;
  let begin = -1;
  const take = (end: number) => {
    if (key !== null && begin !== -1 && keys.includes(key)) found.set(key, text.slice(begin, end).trim());
    key = null;
    begin = -1;
  };
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = afterString(text, at);
      if (depth === 1 && key === null) key = JSON.parse(text.slice(at, end));
      at = end;
      continue;
    }
    if (OPENING.has(code)) depth += 1;
    else if (CLOSING.has(code)) {
      depth -= 1;
      if (depth === 0) take(at);
    } else if (depth === 1 && code === COLON && begin === -1) begin = at + 1;
    else if (depth === 1 && code === COMMA) take(at);
    at += 1;
  }
  const first =
    keys.find((each) => found.has(each) && found.get(each) !== "null") ?? keys.find((each) => found.has(each));
  return first === undefined ? null : (found.get(first) ?? null);
}
