import { expect, test } from "vitest";
import { Lines } from "@/api/stream/lines";

test("events come out whole, however the pieces are cut", () => {
  const text = ': ping\n\nid: 7\ndata: {"a":\ndata: 1}\n\nevent: end\r\ndata: x\r\n\r\n';
  for (let cut = 0; cut <= text.length; cut++) {
    const lines = new Lines();
    const found = [...lines.take(text.slice(0, cut)), ...lines.take(text.slice(cut))];
    expect(found).toEqual([
      { event: "message", data: '{"a":\n1}', id: "7" },
      { event: "end", data: "x", id: "7" },
    ]);
  }
});

test("a comment is no event", () => {
  expect(new Lines().take(": ping\n\n: ping\n\n")).toEqual([]);
});
