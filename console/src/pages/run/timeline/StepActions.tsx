import { useState } from "react";
import { Fork } from "@/pages/run/actions/Fork";
import type { RunWhole } from "@/pages/run/tabs";
import { ActionButton } from "@/parts/Action";

/** The buttons of a selected step, or of an operation of a flow. */
export function StepActions({ run, step, ended }: { run: RunWhole; step: string; ended: number | null }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div className="line run-step-actions">
      <ActionButton label="Fork from here…" needs="operator" onClick={() => setOpen(true)} />
      {isOpen ? <Fork run={run} step={step} ended={ended} onClose={() => setOpen(false)} /> : null}
    </div>
  );
}
