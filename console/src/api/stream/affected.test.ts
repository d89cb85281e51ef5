import { expect, test } from "vitest";
import { isAffected } from "@/api/stream/affected";

const A = "01a2201e-096e-711e-98a3-6824ef58b179";
const B = "01a2201e-096e-711e-98a3-000000000000";

test("a query of a run is affected by that run alone", () => {
  expect(isAffected(["/api/v1/runs/{run}", { run: A }, {}], new Set([A]))).toBe(true);
  expect(isAffected(["/api/v1/runs/{run}", { run: A }, {}], new Set([B]))).toBe(false);
  expect(isAffected(["/api/v1/gates/{gate}", { gate: `${A}:review#1` }, {}], new Set([A]))).toBe(true);
  expect(isAffected(["/api/v1/gates", {}, { run: A }], new Set([B]))).toBe(false);
});

test("a list of all runs is affected by each, and what no run changes by none", () => {
  expect(isAffected(["/api/v1/runs", {}, { text: "a" }], new Set([A]))).toBe(true);
  expect(isAffected(["/api/v1/me", {}, {}], new Set([A]))).toBe(false);
  expect(isAffected(["quote", {}], new Set([A]))).toBe(false);
});
