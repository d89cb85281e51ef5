import { expect, test } from "vitest";
import { pieces } from "@/parts/invisible";

const marks = (text: string) => pieces(text).flatMap((each) => each.marked ?? []);

test("text that is all seen is one piece", () => {
  expect(pieces("Grüße, 世界 👩‍🚀\n\tline")).toEqual([{ text: "Grüße, 世界 👩‍🚀\n\tline" }]);
});

test("bidirectional and invisible characters are marked with their names", () => {
  expect(marks("pay\u202e0001\u202c")).toEqual(["U+202E right-to-left override", "U+202C pop directional formatting"]);
  expect(marks("a\u200bb\ufeffc\u00add")).toHaveLength(3);
  expect(marks("a\u3164\u2800")).toEqual(["U+3164 Hangul filler", "U+2800"]);
});

test("hidden instructions in tag characters are marked one by one", () => {
  expect(marks("ok\u{e0068}\u{e0069}")).toEqual(["U+E0068 tag h", "U+E0069 tag i"]);
});

test("a joiner is marked where it joins no emoji", () => {
  expect(marks("a\u200db")).toEqual(["U+200D zero width joiner"]);
});

test("control characters are marked, and the text stays whole", () => {
  expect(marks("\u001b[31mred")).toEqual(["U+001B escape"]);
  expect(
    pieces("x\u0000y")
      .map((each) => each.text)
      .join(""),
  ).toBe("x\u0000y");
});
