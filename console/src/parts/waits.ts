/** What a run waits for, in words. */
import type { Schemas } from "@/api/client";

type Wait = Schemas["WaitRow"];

export function wordsOf(wait: Wait): string {
  const about = wait.about ? ` ${wait.about}` : "";
  switch (wait.kind) {
    case "gate":
      return wait.reason === "approval" ? "waiting for approval" : `asks: ${wait.reason.replaceAll("_", " ")}`;
    case "signal":
      return `waiting for signal ${wait.reason}`;
    default:
      return `waiting for ${wait.kind.replaceAll("_", " ")}${about}`;
  }
}
