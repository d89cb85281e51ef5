import { expect, test } from "vitest";
import { clock, duration, exact, relative } from "@/parts/moment";

test("durations have two units at most", () => {
  expect(duration(240)).toBe("240 ms");
  expect(duration(12_900)).toBe("12 s");
  expect(duration(134_000)).toBe("2 m 14 s");
  expect(duration(14_520_000)).toBe("4 h 02 m");
  expect(duration(273_600_000)).toBe("3 d 4 h");
  expect(duration(-5)).toBe("0 ms");
});

test("relative times look back and ahead", () => {
  expect(relative(0, 1_000)).toBe("just now");
  expect(relative(0, 89_000)).toBe("1 min ago");
  expect(relative(18_000_000, 0)).toBe("in 5 h");
});

test("relative times do not hide most of a unit", () => {
  const hour = 3_600_000;
  expect(relative((2 * 24 + 20) * hour, 0)).toBe("in 2 d 20 h");
  expect(relative(0, 115_000)).toBe("2 min ago");
  expect(relative(1.9 * hour, 0)).toBe("in 1 h 54 m");
  expect(relative(23.8 * hour, 0)).toBe("in 1 d");
  expect(relative(59.7 * 60_000, 0)).toBe("in 1 h");
  expect(relative(0, 13.6 * 24 * hour)).toBe("14 d ago");
});

test("exact times name their zone", () => {
  expect(exact(Date.UTC(2026, 10, 28, 14, 2, 7, 250), "utc")).toBe("2026-11-28 14:02:07.250 UTC");
  expect(clock(Date.UTC(2026, 10, 28, 14, 2, 7), "utc")).toBe("14:02:07");
});
