import { expect, test } from "vitest";
import { type Entry, freshOf, isRead, joined, letGo, pageAt, together } from "./merge";

const runs = (ids: string) => [...ids].map((id) => ({ run_id: id })) as Parameters<typeof joined>[0][number][];
const read = (id: string) => ({ run_id: id, status: "running" }) as unknown as Entry;
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
  const { rows, begins } = together([runs("cb"), runs("ba"), runs("9")]);
  expect(ids(rows)).toBe("cba9");
  expect(begins).toEqual([0, 2, 3]);
  expect([0, 1, 2, 3, 9].map((index) => pageAt(begins, index))).toEqual([0, 0, 1, 2, 2]);
});

test("of pages far from the view only the ids are kept", () => {
  const pages = new Map<number, readonly Entry[]>([1, 2, 3].map((page) => [page, [read(`${page}`)]]));
  letGo(pages, (page) => page === 2);
  expect([...pages.values()].flat().map((each) => [each.run_id, isRead(each)])).toEqual([
    ["1", false],
    ["2", true],
    ["3", false],
  ]);
});
