import { expect, test } from "vitest";
import { isRunBeginning, isRunId, shortRun } from "@/parts/runs";

const RUN = "01a2176d-46e9-7abc-8def-0123456789ab";

test("an id of a run is known", () => {
  expect(isRunId(` ${RUN} `)).toBe(true);
  expect(isRunId("office")).toBe(false);
});

test("each beginning of an id that is shown is one that is found", () => {
  for (let end = 9; end <= RUN.length; end += 1) expect(isRunBeginning(RUN.slice(0, end))).toBe(true);
  expect(isRunBeginning(shortRun(RUN))).toBe(true);
  for (const text of ["decade", "01a2176d", "order-2026", `${RUN}0`]) expect(isRunBeginning(text)).toBe(false);
});
