/** What an agent says and does in a run, folded from the pieces of its streams. */
import type { Piece } from "@/api/run-stream";

export interface Block {
  /** The call that says it, with the part of it: unique in the run. */
  source: string;
  kind: "text" | "thinking" | "call" | "value";
  text: string;
  /** Characters so far, as the server counts them. */
  count: number;
  /** Of a tool call: its name, and what came back. */
  tool?: string;
  result?: string;
  hasFailed?: boolean;
  value?: unknown;
}

export type Said = readonly Block[];

/** Add a piece. One that is known already changes nothing. */
export function add(said: Said, piece: Piece): Said {
  switch (piece.kind) {
    case "text":
    case "thinking":
      return withText(said, piece.kind, piece);
    case "arguments":
      return withText(said, "call", piece);
    case "result":
      return withResult(said, piece);
    case "value":
      return withValue(said, piece);
    case "reset":
      return said.filter((each) => callOf(each.source) !== callOf(piece.source));
    default:
      return said;
  }
}

function withText(said: Said, kind: Block["kind"], piece: Piece): Said {
  const { source } = piece;
  const index = said.findIndex((each) => each.source === source);
  const tool = kind === "call" ? { tool: toolOf(source) } : {};
  const before: Block = said[index] ?? { source, kind, text: "", count: 0, ...tool };
  const characters = Array.from(piece.text ?? "");
  const known = before.count - piece.offset;
  if (index !== -1 && known >= characters.length) return said;
  const fresh = characters.slice(Math.max(0, known));
  const next = { ...before, text: before.text + fresh.join(""), count: before.count + fresh.length };
  return index === -1 ? [...said, next] : said.map((each, at) => (at === index ? next : each));
}

function withResult(said: Said, piece: Piece): Said {
  const source = piece.source.replace(/:result$/, "");
  const result = { result: piece.text ?? "", hasFailed: piece.outcome === "failed" };
  if (said.some((each) => each.source === source)) {
    return said.map((each) => (each.source === source ? { ...each, ...result } : each));
  }
  return [...said, { source, kind: "call", text: "", count: 0, tool: toolOf(source), ...result }];
}

function withValue(said: Said, piece: Piece): Said {
  const source = `${piece.source}#${piece.offset}`;
  if (said.some((each) => each.source === source)) return said;
  return [...said, { source, kind: "value", text: "", count: 1, tool: piece.stream, value: piece.value }];
}

/** `flow#1:0:1:find_book:toolu_1` is of the call `flow#1:0:1`. */
export function callOf(source: string): string {
  return source.split(":").slice(0, 3).join(":");
}

function toolOf(source: string): string {
  return source.split(":")[3] ?? "";
}
