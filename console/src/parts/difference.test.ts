import { describe, expect, it } from "vitest";
import { read } from "@/api/exact";
import { changes, labelOf } from "@/parts/difference";

describe("changes", () => {
  it("names each field that differs", () => {
    const before = read('{"a": 1, "b": {"c_d": "x", "e": [1]}, "g": 1}');
    expect(changes(before, { a: 1, b: { c_d: "y", e: [1] }, f: true })).toEqual([
      { pointer: "#/b/c_d", label: "B › C d", before: "x", after: "y" },
      { pointer: "#/g", label: "G", before: 1, after: undefined },
      { pointer: "#/f", label: "F", before: undefined, after: true },
    ]);
  });

  it("tells a number from its text, and null from nothing", () => {
    expect(changes(1, "1")).toHaveLength(1);
    expect(changes({ a: null }, {})).toHaveLength(1);
    expect(changes({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] })).toEqual([]);
  });

  it("labels names in words", () => {
    expect(labelOf("order_id")).toBe("Order id");
    expect(labelOf("amount_eur")).toBe("Amount (EUR)");
    expect(labelOf("nap_s")).toBe("Nap (s)");
    expect(labelOf("customerEmail")).toBe("Customer Email");
  });
});
