import { Link } from "react-router";
import { broughtBy, type Draft } from "@/pages/inbox/data";
import type { Whole } from "@/pages/inbox/words";
import { Changes } from "@/parts/Changes";
import { ForeignText } from "@/parts/ForeignText";
import { Material } from "@/parts/Material";
import { Time } from "@/parts/Time";

interface Props {
  gate: Whole;
  /** The caller's name. */
  me: string | null;
  draft: Draft | undefined;
  forget: () => void;
}

/** A gate that takes no decision any more: who decided what, when and why. A draft that came too late is kept. */
export function Decided({ gate, me, draft, forget }: Props) {
  const who = gate.by === null ? "an unnamed person" : gate.by === me ? "you" : gate.by;
  const hasDraft = draft !== undefined && (draft.value !== undefined || Boolean(draft.reason) || Boolean(draft.answer));
  const brought = broughtBy(gate);
  return (
    <section className="gate-note" data-kind={hasDraft ? "conflict" : "decided"} role="status" aria-label="Decision">
      <p>
        <strong>{gate.state === "decided" ? `Decided: ${gate.decision} by ${who}` : OVER[gate.state]}</strong>
        {gate.closed_at ? (
          <>
            {" "}
            <Time at={gate.closed_at} /> (<Time at={gate.closed_at} kind="exact" />)
          </>
        ) : null}
        {gate.approver_role ? `, as ${gate.approver_role}` : ""}
      </p>
      {gate.decision_reason ? (
        <p>
          <ForeignText text={gate.decision_reason} />
        </p>
      ) : null}
      {gate.decision === "edit" ? <Changes before={gate.initial_data} after={gate.data} /> : null}
      {gate.decision !== "edit" && brought !== undefined ? <Material value={brought} /> : null}
      <p>
        <Link to={`/runs/${gate.run_id}`}>Open the run</Link>
      </p>
      {hasDraft ? (
        <div className="gate-draft">
          <p>
            <strong>Your draft was not sent.</strong> It is kept here until you discard it.
          </p>
          {draft.value !== undefined ? <Changes before={gate.initial_data} after={draft.value} /> : null}
          {draft.answer ? <ForeignText text={draft.answer} isBlock /> : null}
          {draft.reason ? (
            <p>
              <span className="muted">Reason</span> <ForeignText text={draft.reason} />
            </p>
          ) : null}
          <button type="button" className="btn" onClick={forget}>
            Discard the draft
          </button>
        </div>
      ) : null}
    </section>
  );
}

const OVER: Record<string, string> = {
  expired: "Expired: no decision came in time",
  withdrawn: "Withdrawn: no decision is needed any more",
};
