import { expect, test } from "vitest";
import { freshOf, joined, together } from "./merge";

const runs = (ids: string) => [...ids].map((id) => ({ run_id: id })) as Parameters<typeof joined>[0][number][];
const ids = (rows: { run_id: string }[]) => rows.map((each) => each.run_id).join("");

test("rows that new ones push off the first page stay, those that no longer match go", () => {
  expect(ids(joined(runs("edcb"), runs("gfec"), false))).toBe("gfecb");
  expect(ids(joined(runs("edcb"), runs("e"), true))).toBe("e");
  expect(ids(joined([], runs("a"), false))).toBe("a");
  // So many new ones that the pages no longer touch.
  expect(ids(joined(runs("ba"), runs("zyx"), false))).toBe("zyxba");
});

test("new ones are counted until they are shown", () => {
  expect(freshOf(runs("gfe"), ["e", "d"])).toBe(2);
  expect(freshOf(runs("gfe"), [])).toBe(0);
  // The first that was shown no longer matches.
  expect(freshOf(runs("gfd"), ["e", "d"])).toBe(2);
});

test("a row that two pages have is shown once", () => {
  expect(ids(together([runs("cb"), runs("ba")]))).toBe("cba");
});
