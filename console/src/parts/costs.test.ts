import { expect, test } from "vitest";
import { byGroup, daysBetween } from "@/parts/costs";

test("amounts of a group are summed by day, exactly", () => {
  const rows = [
    { day: "2026-11-27", cost_usd: "0.000000001", model: "a" },
    { day: "2026-11-28", cost_usd: "0.10", model: "a" },
    { day: "2026-11-28", cost_usd: "0.20", model: "a" },
    { day: "2026-11-28", cost_usd: "9007199.254740993", model: "b" },
  ];
  const found = byGroup(rows, (row) => row.model, ["2026-11-27", "2026-11-28"]);
  expect(found.map((each) => [each.name, each.total, each.amounts])).toEqual([
    ["b", "9007199.254740993", ["0.00", "9007199.254740993"]],
    ["a", "0.300000001", ["0.000000001", "0.30"]],
  ]);
});

test("every day of a range is there, also one without costs", () => {
  expect(daysBetween("2026-02-27", "2026-03-01")).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
});
