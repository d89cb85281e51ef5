import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { useRow } from "@/api/queries";
import { asksWords } from "@/pages/inbox/words";
import type { RunWhole } from "@/pages/run/tabs";
import { ForeignText } from "@/parts/ForeignText";
import { useNow } from "@/parts/now";
import { Duration, Time } from "@/parts/Time";
import { wordsOf } from "@/parts/waits";
import { addressOfWhy } from "@/parts/why";

type Wait = Schemas["WaitRow"];
const SHOWN = 5;
const QUEUED: ReadonlySet<Wait["kind"]> = new Set(["slot", "worker", "pool", "place", "money", "tokens"]);

/** What needs to be known at once: each wait, the error, and what keeps a process from going on. */
export function RunNotes({ run }: { run: RunWhole }) {
  const waits = run.ended_at ? [] : run.waiting_for;
  return (
    <>
      {run.error ? (
        <div className="run-note" data-tone="bad">
          <span>
            <strong>{run.status === "failed" ? "Failed" : "Last error"}:</strong>{" "}
            <ForeignText text={run.error.message} />
          </span>
          <span className="faint">
            {run.error.error_class.replaceAll("_", " ")}
            {run.error.node ? (
              <>
                {" in "}
                <code>{run.error.node}</code>
              </>
            ) : null}
            {", "}
            <Time at={run.error.at} />
          </span>
        </div>
      ) : null}
      {waits.slice(0, SHOWN).map((wait) => (
        <WaitNote key={`${wait.kind} ${wait.id}`} wait={wait} run={run} />
      ))}
      {waits.length > SHOWN ? (
        <p className="run-more">
          <Link to={addressOfWhy(run.run_id)}>and {waits.length - SHOWN} more waits: why?</Link>
        </p>
      ) : null}
      {run.workflow_missing_since ? (
        <div className="run-note" data-tone="bad">
          <span>
            No living process has the code of this workflow. Start a worker with <code>{run.workflow}</code>.
          </span>
          <span className="faint">
            since <Time at={run.workflow_missing_since} />
          </span>
        </div>
      ) : null}
      {run.stalls.map((each) => (
        <div className="run-note" data-tone="bad" key={`${each.since} ${each.reason}`}>
          <span>
            A process cannot go on: <ForeignText text={each.reason} />
          </span>
          <span className="faint">
            since <Time at={each.since} />
          </span>
        </div>
      ))}
      {Object.entries(run.would_stop).map(([limit, why]) => (
        <div className="run-note" key={limit}>
          <span>Dry run: it would have stopped here. {why}</span>
        </div>
      ))}
    </>
  );
}

function WaitNote({ wait, run }: { wait: Wait; run: RunWhole }) {
  const isGate = wait.kind === "gate";
  const gate = useRow("/api/v1/gates/{gate}", { path: { gate: wait.id } }, { enabled: isGate }).row;
  const words = gate ? asksWords(gate) : wordsOf(wait);
  return (
    <div className="run-note" data-tone="wait">
      <span>
        <strong>
          <ForeignText text={words.charAt(0).toUpperCase() + words.slice(1)} />
        </strong>
        {wait.step ? (
          <>
            {" in "}
            <code>{wait.step}</code>
          </>
        ) : null}
      </span>
      <span className="faint">
        for <Duration from={wait.since_ms} />
        {wait.due_at_ms ? (
          <>
            , <Due wait={wait} at={wait.due_at_ms} />
          </>
        ) : null}
      </span>
      <WaitLink wait={wait} run={run} />
    </div>
  );
}

/** A deadline of a question may pass; any other wait ends at its time. */
function Due({ wait, at }: { wait: Wait; at: number }) {
  const isOver = useNow() > at;
  return (
    <>
      {wait.kind === "gate" ? (isOver ? "was due" : "due") : isOver ? "was to end" : "ends"} <Time at={at} />
    </>
  );
}

/** Where the wait can be understood or ended. */
export function WaitLink({ wait, run }: { wait: Wait; run: Pick<RunWhole, "run_id"> }) {
  if (wait.kind === "gate") {
    return (
      <Link className="btn" to={`/inbox/${encodeURIComponent(wait.id)}`}>
        Open the question
      </Link>
    );
  }
  if (wait.kind === "child" && wait.about) {
    return (
      <Link className="btn" to={`/runs/${encodeURIComponent(wait.about)}`}>
        Open the child
      </Link>
    );
  }
  if (QUEUED.has(wait.kind)) {
    return (
      <Link className="btn" to={addressOfWhy(run.run_id, wait.step)}>
        Why does it wait?
      </Link>
    );
  }
  return null;
}
