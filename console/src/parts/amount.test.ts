import { describe, expect, test } from "vitest";
import { dollars, nanos, parts, places, share, sum } from "@/parts/amount";

describe("amounts", () => {
  test("are exact to the nano-dollar", () => {
    expect(nanos("0.000000001")).toBe(1n);
    expect(dollars(nanos("90071992547409.930000001"))).toBe("90071992547409.930000001");
    expect(sum(["0.1", "0.2", "0.000000001"])).toBe("0.300000001");
    expect(dollars(-5n)).toBe("-0.000000005");
  });
  test("are shown in full, and zero is $0", () => {
    expect(parts("1234567.89")).toEqual({ whole: "$1,234,567", fraction: ".89" });
    expect(parts("0.00")).toEqual({ whole: "$0", fraction: "" });
    expect(parts("-0.0051")).toEqual({ whole: "−$0", fraction: ".0051" });
  });
  test("are aligned on the longest fraction", () => {
    expect(places(["1.84", "0.0051", null])).toBe(5);
  });
  test("have shares between none and all", () => {
    expect(share("1.00", "4.00")).toBe(0.25);
    expect(share("5.00", "4.00")).toBe(1);
    expect(share("5.00", "0.00")).toBe(0);
  });
  test("refuse what is no amount", () => {
    expect(() => nanos("1e3")).toThrow(RangeError);
  });
});
