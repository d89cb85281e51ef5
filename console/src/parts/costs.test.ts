import { expect, test } from "vitest";
import { beginOf, placed, timesBetween } from "@/parts/costs";

test("amounts of a group stand at their times, as the server wrote them", () => {
  const rows = [
    { day: "2026-11-27", cost_usd: "0.000000001", model: "a" },
    { day: "2026-11-28", cost_usd: "0.10", model: "a" },
    { day: "2026-11-28", cost_usd: "9007199.254740993", model: "b" },
    { day: "2026-11-28", cost_usd: "3.00", model: "others" },
  ];
  const days = ["2026-11-27", "2026-11-28"];
  const found = placed(
    rows,
    (row) => row.model,
    (row) => row.day,
    days,
    ["b", "a"],
  );
  expect(found.map((each) => [each.name, each.amounts])).toEqual([
    ["b", ["0.00", "9007199.254740993"]],
    ["a", ["0.000000001", "0.10"]],
    ["others", ["0.00", "3.00"]],
  ]);
});

test("every day or hour of a range is there, also one without costs", () => {
  expect(timesBetween("2026-02-27", "2026-03-01", "day")).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
  const hours = timesBetween("2026-02-27", "2026-02-27", "hour");
  expect([hours.length, hours[0], hours.at(-1)]).toEqual([24, "2026-02-27T00", "2026-02-27T23"]);
  expect(beginOf("2026-02-27T23") - beginOf("2026-02-27")).toBe(23 * 3_600_000);
});
