import { describe, expect, it } from "vitest";
import type { Piece } from "@/api/run-stream";
import { add, type Said } from "@/pages/conversations/said";

const piece = (kind: Piece["kind"], source: string, offset: number, more: Partial<Piece> = {}): Piece => ({
  run_id: "r",
  stream: "model",
  kind,
  source,
  offset,
  cursor: "@1",
  ...more,
});
const fold = (...pieces: Piece[]): Said => pieces.reduce(add, [] as Said);

describe("what an agent says", () => {
  it("is put together by character, each once", () => {
    const said = fold(
      piece("text", "a#1:0:1", 0, { text: "né 🙂" }),
      piece("text", "a#1:0:1", 4, { text: " ok" }),
      piece("text", "a#1:0:1", 4, { text: " ok" }),
      piece("text", "a#1:0:1", 3, { text: "🙂 ok!" }),
    );
    expect(said.map((each) => each.text)).toEqual(["né 🙂 ok!"]);
  });

  it("is taken back where a call is made again", () => {
    const said = fold(
      piece("text", "a#1:0:1", 0, { text: "one" }),
      piece("arguments", "a#1:0:1:find:t1", 0, { text: "{}" }),
      piece("text", "a#1:2:1", 0, { text: "two" }),
      piece("reset", "a#1:0:1", 0),
    );
    expect(said.map((each) => each.text)).toEqual(["two"]);
  });

  it("has the result of a tool with its call", () => {
    const said = fold(
      piece("arguments", "a#1:0:1:find:t1", 0, { text: '{"x":1}' }),
      piece("result", "a#1:0:1:find:t1:result", 0, { text: "no", outcome: "failed" }),
    );
    const call = { kind: "call", text: '{"x":1}', count: 7, tool: "find", result: "no", hasFailed: true };
    expect(said).toEqual([{ source: "a#1:0:1:find:t1", ...call }]);
  });
});
