import type { RunWhole } from "@/pages/run/tabs";

/** The buttons of a selected step. */
export function StepActions(_: { run: RunWhole; step: string }) {
  return null;
}
