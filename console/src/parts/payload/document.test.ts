import { expect, test } from "vitest";
import { Document, valueUnder } from "./document";

const all = (given: Document) => given.read(0, given.size, 10_000);

test("each line is a piece of the text as it is stored", () => {
  const text = '{"a":[1,{"b":"x,]}\\"y"},[],{}],"c":10000000000000000000001,"d":{"e":null}}';
  const given = new Document(text);
  expect(all(given)).toEqual([
    "{",
    '"a":[',
    "1,",
    "{",
    '"b":"x,]}\\"y"',
    "},",
    "[],",
    "{}",
    "],",
    '"c":10000000000000000000001,',
    '"d":{',
    '"e":null',
    "}",
    "}",
  ]);
  expect([...given.lines.depth]).toEqual([0, 1, 2, 2, 3, 2, 2, 2, 1, 1, 1, 2, 1, 0]);
  expect([...given.lines.closes].map((to, from) => (to < 0 ? "" : `${from}-${to}`)).filter(Boolean)).toEqual([
    "0-13",
    "1-8",
    "3-5",
    "10-12",
  ]);
});

test("blanks between are no lines, and a value alone is one", () => {
  const given = new Document('{\n  "a" : 1 ,\n  "b" : [ 2 , 3 ]\n}\n');
  expect(all(given).map((line) => line.trim().replaceAll(" ", ""))).toEqual([
    "{",
    '"a":1,',
    '"b":[',
    "2,",
    "3",
    "]",
    "}",
  ]);
  expect(all(new Document('"text"'))).toEqual(['"text"']);
  expect(all(new Document("[]"))).toEqual(["[]"]);
});

test("words are found in whatever case, folded or not, with their lines", () => {
  const given = new Document('{"a":"Anna anna","b":["x","ANNA"]}');
  const found = given.find("anna");
  expect(found.count).toBe(3);
  expect([...found.lines]).toEqual([1, 4]);
  expect(given.find("").count).toBe(0);
  expect(given.find("nobody").count).toBe(0);
});

test("the value of a key is taken as it stands", () => {
  const text = '{"type":"X","output":{"type":1,"n":[1.10,{"output":2}]},"input":null,"seq":3}';
  expect(valueUnder(text, ["input", "output"])).toBe('{"type":1,"n":[1.10,{"output":2}]}');
  expect(valueUnder(text, ["seq"])).toBe("3");
  expect(valueUnder(text, ["input"])).toBe("null");
  expect(valueUnder(text, ["missing"])).toBe(null);
});

test("5 MB are lines in a moment", () => {
  const text = JSON.stringify({
    rows: Array.from({ length: 36_000 }, (_, id) => ({ id, text: "lorem ipsum ".repeat(9) })),
  });
  const before = performance.now();
  const given = new Document(text);
  expect(given.size).toBe(36_000 * 4 + 4);
  expect(given.find("LOREM").count).toBe(36_000 * 9);
  expect(performance.now() - before).toBeLessThan(3_000);
});
