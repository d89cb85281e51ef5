import type { ReactNode } from "react";
import { Link } from "react-router";
import { EventData, INPUTS, OUTPUTS } from "@/pages/run/EventData";
import { WaitLink } from "@/pages/run/RunNotes";
import type { RunWhole } from "@/pages/run/tabs";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { duration } from "@/parts/moment";
import { RunLink } from "@/parts/RunLink";
import { shortRun } from "@/parts/runs";
import { Status } from "@/parts/Status";
import { Duration, Time } from "@/parts/Time";
import { wordsOf } from "@/parts/waits";
import { LastReply } from "./LastReply";
import type { Attempt, Line, Operation, Step } from "./rows";
import { StepActions } from "./StepActions";

interface Props {
  run: RunWhole;
  line: Line | undefined;
  /** True if the address names a line that the run does not have. */
  isMissing: boolean;
  onClose: () => void;
}

/** What is known of the selected line, or of the run. */
export function Panel({ run, line, isMissing, onClose }: Props) {
  return (
    <aside className="run-panel card" aria-label="Details" data-chosen={line ? "" : undefined}>
      {line ? (
        <>
          <div className="line run-panel-head">
            <h2>
              <code>{line.name}</code>
            </h2>
            <Status status={line.status} />
            <button type="button" className="btn quiet right" onClick={onClose} aria-label="Close the details">
              ✕
            </button>
          </div>
          {line.operation ? (
            <OfOperation run={run} row={line.operation} line={line} />
          ) : line.attempts ? (
            <OfStep run={run} line={line} attempts={line.attempts} step={line.step} />
          ) : (
            <p className="muted">
              {line.kind}: {line.note}. Open the line to see each.
            </p>
          )}
        </>
      ) : (
        <>
          {isMissing ? <p className="muted run-panel-missing">This run has no such step.</p> : null}
          <OfRun run={run} />
        </>
      )}
    </aside>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function OfRun({ run }: { run: RunWhole }) {
  const tags = [...run.tags, ...Object.entries(run.labels).map(([key, value]) => `${key}=${value}`)];
  return (
    <>
      <h2>The run</h2>
      <dl className="kv">
        <Fact name="workflow">
          {run.workflow} <span className="faint">version {run.version}</span>
        </Fact>
        <Fact name="id">
          <code>{run.run_id}</code>
        </Fact>
        <Fact name="started">
          <Time at={run.started_at} kind="exact" />
          {run.started_by ? (
            <>
              {" by "}
              <ForeignText text={run.started_by} />
            </>
          ) : null}
        </Fact>
        {run.ended_at ? (
          <Fact name="ended">
            <Time at={run.ended_at} kind="exact" />
          </Fact>
        ) : null}
        <Fact name="tenant">{run.team ? `${run.tenant}, team ${run.team}` : run.tenant}</Fact>
        {tags.length > 0 ? (
          <Fact name="labels">
            <ForeignText text={tags.join(", ")} />
          </Fact>
        ) : null}
        {run.parent ? (
          <Fact name="parent">
            <Link to={`/runs/${run.parent.run_id}?step=${encodeURIComponent(run.parent.step)}`}>
              <code>{shortRun(run.parent.run_id)}</code>
            </Link>{" "}
            <span className="faint">in {run.parent.step}</span>
          </Fact>
        ) : null}
        {run.forked_from ? (
          <Fact name="forked from">
            <RunLink run={run.forked_from.run_id} /> <span className="faint">at {run.forked_from.step}</span>
          </Fact>
        ) : null}
        {run.reason ? <Fact name="reason">{run.reason.replaceAll("_", " ")}</Fact> : null}
        {run.limits
          .filter((each) => each.limit !== "cost" && each.limit !== "tokens")
          .map((each) => (
            <Fact key={each.limit} name={each.limit.replaceAll("_", " ")}>
              {ofLimit(each)}
            </Fact>
          ))}
        {run.scores.map((score) => (
          <Fact key={`${score.name} ${score.by}`} name={score.name}>
            {score.value} <span className="faint">by {score.by}</span>
          </Fact>
        ))}
      </dl>
      <EventData run={run.run_id} seq={1} title="Input" keys={["input"]} />
      {run.status === "completed" ? <EventData run={run.run_id} seq={null} title="Output" keys={["output"]} /> : null}
      {run.error?.trace ? (
        <details className="run-data">
          <summary>Where it failed</summary>
          <ForeignText text={run.error.trace} isBlock />
        </details>
      ) : null}
    </>
  );
}

function ofLimit(each: RunWhole["limits"][number]): string {
  const isTime = each.limit === "active" || each.limit === "wall";
  const words = (value: number) => (isTime ? duration(value) : value.toLocaleString("en"));
  return `${words(each.used)} of ${words(each.most)}`;
}

function OfStep(props: { run: RunWhole; line: Line; attempts: Attempt[]; step: Step | undefined }) {
  const { run, line, attempts, step } = props;
  const last = attempts.at(-1);
  const waits = run.ended_at ? [] : run.waiting_for.filter((wait) => wait.step === line.id);
  const error = step?.error ?? last?.error;
  const calls = line.lines.flatMap((each) => (each.operation ? [each] : each.lines)).map((each) => each.operation);
  const call = calls.filter((each) => each?.kind === "model" && each.ended_seq !== null).at(-1);
  const output = last?.status === "completed" ? last.ended_seq : null;
  return (
    <>
      <dl className="kv">
        <Fact name="attempts">
          {(step?.attempts ?? last?.attempt ?? 0).toLocaleString("en")}
          {step && step.resumptions > 0 ? (
            <span className="faint"> · went on {step.resumptions.toLocaleString("en")} times after a wait</span>
          ) : null}
        </Fact>
        {(step?.worker ?? last?.worker) ? (
          <Fact name="worker">
            <code>{step?.worker ?? last?.worker}</code>
          </Fact>
        ) : null}
        {attempts[0] ? (
          <Fact name="began">
            <Time at={attempts[0].began_at} kind="exact" />
          </Fact>
        ) : null}
        {waits.length > 0 ? (
          waits.map((wait) => (
            <Fact key={wait.id} name="waits for">
              {wordsOf(wait)}, <Duration from={wait.since_ms} /> <WaitLink wait={wait} run={run} />
            </Fact>
          ))
        ) : step && !isOver(step.status) ? (
          <Fact name="waits for">nothing</Fact>
        ) : null}
        {step?.retry_at ? (
          <Fact name="next attempt">
            <Time at={step.retry_at} />
          </Fact>
        ) : null}
        {step?.decisions ? <Fact name="went to">{step.decisions.join(", ") || "nowhere"}</Fact> : null}
        {step?.reason ? <Fact name="reason">{step.reason}</Fact> : null}
      </dl>
      <StepActions run={run} step={line.id} ended={output ?? null} />
      <ErrorFacts error={error} />
      <Attempts attempts={attempts} error={error} />
      {output !== null && output !== undefined ? (
        <EventData run={run.run_id} seq={output} title="Output" keys={OUTPUTS} />
      ) : null}
      {call ? <LastReply run={run.run_id} row={call} /> : null}
    </>
  );
}

function isOver(status: string): boolean {
  return ["completed", "failed", "cancelled", "skipped"].includes(status);
}

const SHOWN_ATTEMPTS = 6;

/** An error is left out where the next attempt, or the step, has the same. */
function Attempts({ attempts, error }: { attempts: readonly Attempt[]; error: Attempt["error"] | undefined }) {
  // Pieces of one attempt, between its waits, are one line.
  const last = new Map(attempts.map((each) => [each.attempt, each]));
  if (last.size < 2) return null;
  return (
    <>
      <h2 className="run-panel-title">Attempts</h2>
      <ol className="run-attempts">
        {[...last.values()].slice(-SHOWN_ATTEMPTS).map((each, index, all) => (
          <li key={each.attempt} value={each.attempt}>
            <span className="line">
              <strong>{each.status}</strong>
              {each.worker ? <code className="faint">{each.worker}</code> : null}
              <span className="faint">
                <Time at={each.began_at} kind="clock" />, <Duration from={each.began_at} to={each.ended_at} />
              </span>
            </span>
            {each.error && each.error.message !== (all[index + 1]?.error ?? error)?.message ? (
              <ForeignText text={each.error.message} />
            ) : null}
          </li>
        ))}
      </ol>
    </>
  );
}

function ErrorFacts({ error }: { error: Operation["error"] | undefined }) {
  if (!error) return null;
  return (
    <div className="run-panel-error">
      <strong>{error.error_class.replaceAll("_", " ")}</strong> <ForeignText text={error.message} />
      {error.trace ? (
        <details className="run-data">
          <summary>Where it failed</summary>
          <ForeignText text={error.trace} isBlock />
        </details>
      ) : null}
    </div>
  );
}

function OfOperation({ run, row, line }: { run: RunWhole; row: Operation; line: Line }) {
  const isCall = row.kind === "model" || row.kind === "tool";
  const hasInput = isCall || row.kind === "child" || row.kind === "question";
  const isOutput = row.ended_seq !== null && row.kind !== "map" && row.kind !== "timer";
  return (
    <>
      <dl className="kv">
        <Fact name="kind">
          {line.kind}
          {row.path ? (
            <span className="faint">
              {" "}
              at <code>{row.path}</code> of <code>{row.step}</code>
            </span>
          ) : null}
        </Fact>
        <Fact name="began">
          <Time at={row.began_at} kind="exact" />
        </Fact>
        <Fact name={row.ended_at ? "took" : "for"}>
          <Duration from={row.began_at} to={row.ended_at} />
          {row.waited_ms > 0 ? <span className="faint"> · waited {duration(row.waited_ms)} before it left</span> : null}
        </Fact>
        {row.tries > 1 ? <Fact name="tries">{row.tries}</Fact> : null}
        {row.waiting_for ? (
          <Fact name="waits for">
            {wordsOf(row.waiting_for)} <WaitLink wait={row.waiting_for} run={run} />
          </Fact>
        ) : row.waits_for.length > 0 && !row.ended_at ? (
          <Fact name="waits for">{row.waits_for.join(", ")}</Fact>
        ) : null}
        {row.due_at && !row.ended_at ? (
          <Fact name={row.status === "retrying" ? "next try" : "until"}>
            <Time at={row.due_at} kind="exact" />
          </Fact>
        ) : null}
        {isCall ? (
          <Fact name="cost">
            <Money usd={row.cost_usd} />
            {row.held_usd === "0.00" ? null : (
              <>
                , <Money usd={row.held_usd} /> held
              </>
            )}
          </Fact>
        ) : null}
        {row.kind === "model" ? (
          <Fact name="tokens">
            {row.input_tokens.toLocaleString("en")} in, {row.output_tokens.toLocaleString("en")} out
          </Fact>
        ) : null}
        {row.decision ? (
          <Fact name="decision">
            {row.decision}
            {row.by ? (
              <>
                {" by "}
                <ForeignText text={row.by} />
              </>
            ) : null}
          </Fact>
        ) : null}
        {row.reused ? <Fact name="reused">its outcome was known from an earlier call</Fact> : null}
        {row.about ? <About row={row} /> : null}
      </dl>
      {row.path === null ? null : (
        <StepActions run={run} step={`${row.step}/${row.path}`} ended={isOutput ? row.ended_seq : null} />
      )}
      <ErrorFacts error={row.error} />
      {row.kind === "map" ? <p className="muted">{line.note}</p> : null}
      {hasInput ? (
        <EventData run={run.run_id} seq={row.seq} title={row.kind === "question" ? "Shown" : "Input"} keys={INPUTS} />
      ) : null}
      {isOutput && row.kind !== "model" ? (
        <EventData
          run={run.run_id}
          seq={row.ended_seq ?? row.seq}
          title={row.kind === "question" ? "Answer" : "Output"}
          keys={OUTPUTS}
        />
      ) : null}
      {row.kind === "model" && row.ended_seq !== null ? <LastReply run={run.run_id} row={row} /> : null}
    </>
  );
}

function About({ row }: { row: Operation }) {
  const about = row.about ?? "";
  if (row.kind === "child") {
    return (
      <Fact name="child">
        <Link to={`/runs/${encodeURIComponent(about)}`}>
          <code>{about}</code>
        </Link>
      </Fact>
    );
  }
  if (row.kind === "question") {
    return (
      <Fact name="question">
        <Link to={`/inbox/${encodeURIComponent(about)}`}>
          {row.ended_at ? "See the question" : "Open the question"}
        </Link>
      </Fact>
    );
  }
  return (
    <Fact name="call">
      <code className="faint">{about}</code> <CopyButton text={about} label="Copy the call's id" />
    </Fact>
  );
}
