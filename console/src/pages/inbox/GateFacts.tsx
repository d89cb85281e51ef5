import { useList } from "@/api/queries";
import type { Whole } from "@/pages/inbox/words";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { RunLink } from "@/parts/RunLink";
import { startKey } from "@/parts/runs";
import { Status } from "@/parts/Status";
import { Time } from "@/parts/Time";

/** Beside a gate: its evidence, who decides and until when, and its run. */
export function GateFacts({ gate }: { gate: Whole }) {
  const run = useList("/api/v1/runs", { query: { prefix: gate.run_id, limit: 1 } }).rows[0];
  const key = run ? startKey(run) : null;
  return (
    <aside className="gate-facts">
      {gate.evidence_ids.length > 0 ? (
        <section className="card">
          <h3>Evidence</h3>
          <ul className="gate-evidence">
            {gate.evidence_ids.map((each) => (
              <li key={each}>
                <ForeignText text={each} /> <CopyButton text={each} label="Copy the evidence's id" />
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <section className="card">
        <h3>Who decides</h3>
        <dl className="kv">
          <dt>Reviewers</dt>
          <dd>{gate.reviewers.length > 0 ? gate.reviewers.join(", ") : "any reviewer"}</dd>
          {gate.quorum > 1 ? (
            <>
              <dt>Approvals</dt>
              <dd>
                {gate.approved_by.length} of {gate.quorum}
                {gate.approved_by.length > 0 ? `: ${gate.approved_by.join(", ")}` : ""}
              </dd>
            </>
          ) : null}
          {gate.four_eyes ? (
            <>
              <dt>Not by</dt>
              <dd>{[gate.requester, ...gate.contributors].filter(Boolean).join(", ") || "a contributor"}</dd>
            </>
          ) : gate.not_by.length > 0 ? (
            <>
              <dt>Not by</dt>
              <dd>{gate.not_by.join(", ")}</dd>
            </>
          ) : null}
          <dt>Asked</dt>
          <dd>
            <Time at={gate.opened_at} />
            {gate.reminders > 0 ? `, reminded ${gate.reminders === 1 ? "once" : `${gate.reminders} times`}` : ""}
          </dd>
          {gate.due_at ? (
            <>
              <dt>Due</dt>
              <dd>
                <Time at={gate.due_at} />; then it needs attention and stays open
              </dd>
            </>
          ) : null}
          {gate.remind_at ? (
            <>
              <dt>Reminder</dt>
              <dd>
                <Time at={gate.remind_at} />
              </dd>
            </>
          ) : null}
          {gate.expires_at ? (
            <>
              <dt>Expires</dt>
              <dd>
                <Time at={gate.expires_at} />
              </dd>
            </>
          ) : null}
          {gate.cancel_at ? (
            <>
              <dt>Cancels</dt>
              <dd>
                the run, <Time at={gate.cancel_at} />
              </dd>
            </>
          ) : null}
          {gate.assigned.map((each) => (
            <Assigned key={`${each.at} ${each.reviewers.join()}`} each={each} />
          ))}
        </dl>
      </section>
      <section className="card">
        <h3>Run</h3>
        <dl className="kv">
          <dt>Workflow</dt>
          <dd>{run ? run.workflow : "–"}</dd>
          {run && key ? (
            <>
              <dt>Key</dt>
              <dd>
                <ForeignText text={key} />
              </dd>
            </>
          ) : null}
          <dt>Run</dt>
          <dd>
            <RunLink run={gate.run_id} /> <CopyButton text={gate.run_id} label="Copy the run's id" />{" "}
            {run ? <Status status={run.status} /> : null}
          </dd>
          {gate.step ? (
            <>
              <dt>Step</dt>
              <dd>
                <code>{gate.step}</code>
              </dd>
            </>
          ) : null}
          {run ? (
            <>
              <dt>Cost</dt>
              <dd>
                <Money usd={run.cost_usd} />
                {run.held_usd === "0.00" ? null : (
                  <>
                    , <Money usd={run.held_usd} /> held
                  </>
                )}{" "}
                <span className="faint">
                  {run.limit_usd === null ? (
                    "no limit"
                  ) : (
                    <>
                      of <Money usd={run.limit_usd} />
                    </>
                  )}
                </span>
              </dd>
            </>
          ) : null}
        </dl>
      </section>
      <p className="faint gate-hash">
        Only what is shown here is decided · <code>{gate.shown_hash.slice(0, 8)}</code>{" "}
        <CopyButton text={gate.shown_hash} label="Copy the hash of what is shown" />
      </p>
    </aside>
  );
}

function Assigned({ each }: { each: Whole["assigned"][number] }) {
  return (
    <>
      <dt>{each.delegated ? "Delegated" : "Reassigned"}</dt>
      <dd>
        to {each.reviewers.join(", ")} by {each.by ?? "an unnamed person"} <Time at={each.at} />
        {each.reason ? (
          <>
            : <ForeignText text={each.reason} />
          </>
        ) : null}
      </dd>
    </>
  );
}
