import { expect, test } from "vitest";
import { check, fieldOf, number, type Schema, starting, Unreadable } from "@/parts/schema";

const ORDER: Schema = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1 },
    count: { type: "integer", minimum: 1, default: 2 },
    note: { anyOf: [{ type: "string" }, { type: "null" }] },
    address: { $ref: "#/$defs/Address" },
    lines: { type: "array", items: { type: "number" }, maxItems: 2 },
  },
  required: ["name", "count", "address"],
  $defs: {
    Address: { type: "object", properties: { town: { type: "string", pattern: "^[A-Z]" } }, required: ["town"] },
  },
};

test("a form begins with defaults and required fields, and leaves the others out", () => {
  expect(starting(ORDER, ORDER)).toEqual({ name: "", count: 2, address: { town: "" } });
});

test("a field that may be null shows its other kind", () => {
  expect(fieldOf({ anyOf: [{ type: "string" }, { type: "null" }] }, ORDER)).toMatchObject({
    kind: "text",
    isNullable: true,
  });
  expect(fieldOf({ anyOf: [{ type: "string" }, { type: "number" }] }, ORDER).kind).toBe("json");
  expect(fieldOf({ $ref: "#/$defs/Address" }, ORDER).kind).toBe("object");
});

test("errors stand at the pointer of their field", () => {
  const value = { name: "", count: 0, address: { town: "oslo" }, lines: [1, new Unreadable("x"), 3] };
  expect([...check(value, ORDER, ORDER).keys()]).toEqual([
    "#/name",
    "#/count",
    "#/address/town",
    "#/lines",
    "#/lines/1",
  ]);
  expect(check({ name: "a", count: 1, address: { town: "Oslo" } }, ORDER, ORDER).size).toBe(0);
});

test("a pattern of our own forms is said in words", () => {
  const amount = { type: "string", pattern: "^\\d+(\\.\\d{1,9})?$" };
  expect([...check("-1", amount, amount).values()]).toEqual(["Enter an amount in dollars, like 0.50."]);
  expect(check("0.50", amount, amount).size).toBe(0);
});

test("of different values that are known at least one is chosen", () => {
  const kinds: Schema = {
    type: "array",
    uniqueItems: true,
    minItems: 1,
    items: { oneOf: [{ const: "a", title: "A" }] },
  };
  expect(fieldOf(kinds, kinds).kind).toBe("list");
  expect([...check([], kinds, kinds).values()]).toEqual(["Choose at least one."]);
  expect(check(["a"], kinds, kinds).size).toBe(0);
});

test("a number stays a number, and what is none is kept as typed", () => {
  expect(number("18.40")).toBe(18.4);
  expect(number("")).toBeUndefined();
  expect(number("1,5")).toEqual(new Unreadable("1,5"));
});

test("a schema that refers to itself ends", () => {
  const tree: Schema = { type: "object", properties: { child: { $ref: "#" } } };
  expect(starting(tree, tree)).toEqual({});
});
