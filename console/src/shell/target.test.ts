import { expect, test } from "vitest";
import { targetOf } from "@/shell/target";

const RUN = "01a2201e-096e-711e-98a3-6824ef58b179";

test("a pasted id opens the thing", () => {
  expect(targetOf(` ${RUN} `)?.to).toBe(`/runs/${RUN}`);
  expect(targetOf(`${RUN}:draft#2`)?.to).toBe(`/runs/${RUN}?step=draft%232`);
  expect(targetOf(`${RUN}:review#1:0`)?.to).toBe(`/inbox/${RUN}%3Areview%231%3A0`);
  expect(targetOf("office chairs")).toBeNull();
});
