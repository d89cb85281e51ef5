import { expect, test } from "vitest";
import { freshOf, joined } from "./merge";

const run = (id: string) => ({ run_id: id }) as Parameters<typeof joined>[0][number];
const ids = (rows: { run_id: string }[]) => rows.map((each) => each.run_id).join("");

test("rows that new ones push off the first page stay, those that no longer match go", () => {
  const shown = [run("e"), run("d"), run("c"), run("b")];
  expect(ids(joined(shown, [run("g"), run("f"), run("e"), run("c")], false))).toBe("gfecb");
  expect(ids(joined(shown, [run("e")], true))).toBe("e");
  expect(ids(joined([], [run("a")], false))).toBe("a");
});

test("new ones are counted until they are shown", () => {
  const rows = [run("g"), run("f"), run("e")];
  expect(freshOf(rows, "e")).toBe(2);
  expect(freshOf(rows, null)).toBe(0);
  // The first that was shown no longer matches: what is older than it is not new.
  expect(freshOf(rows, "ea")).toBe(2);
});
