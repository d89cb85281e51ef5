import { useState } from "react";
import { Link } from "react-router";
import { CompareWith } from "@/pages/run/actions/CompareWith";
import { Extend } from "@/pages/run/actions/Extend";
import { PLAIN_ACTIONS, type Plain, PlainAction } from "@/pages/run/actions/PlainAction";
import { Signal } from "@/pages/run/actions/Signal";
import type { RunWhole } from "@/pages/run/tabs";
import { ActionButton } from "@/parts/Action";

type Act = Plain | "signal" | "extend";

/**
 * The buttons of a run's header. Each says first what it will do, as the server answers. The dialog stays the same while
 * the run goes on: what it asks never changes under the pointer.
 */
export function RunActions({ run }: { run: RunWhole }) {
  const [open, setOpen] = useState<Act | null>(null);
  const close = () => setOpen(null);
  return (
    <>
      {run.forked_from ? (
        <Link className="btn" to={`/runs/${run.forked_from.run_id}/compare/${run.run_id}`}>
          Compare with the original
        </Link>
      ) : null}
      <CompareWith run={run} />
      {offered(run).map((each) => (
        <ActionButton
          key={each}
          label={labelOf(each)}
          needs="operator"
          look={each === "cancel" ? "danger" : undefined}
          onClick={() => setOpen(each)}
        />
      ))}
      {open === "signal" ? <Signal run={run} onClose={close} /> : null}
      {open === "extend" ? <Extend run={run} onClose={close} /> : null}
      {open && open !== "signal" && open !== "extend" ? (
        <PlainAction run={run.run_id} action={open} onClose={close} />
      ) : null}
    </>
  );
}

/** What makes sense in this status. The server decides; its refusal is shown before anything is sent. */
function offered(run: RunWhole): Act[] {
  if (run.ended_at) return run.status === "completed" ? [] : ["retry"];
  const first: Act = run.status === "paused" ? "resume" : "pause";
  return [first, "signal", "extend", "cancel"];
}

function labelOf(act: Act): string {
  if (act === "signal") return "Signal…";
  return act === "extend" ? "Extend…" : PLAIN_ACTIONS[act].label;
}
