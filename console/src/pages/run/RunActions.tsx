import type { RunWhole } from "@/pages/run/tabs";

/** The buttons of a run's header. */
export function RunActions(_: { run: RunWhole }) {
  return null;
}
