/** Why a step waits, and since when and until when: each reason is the server's. */
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { Duration, Time } from "@/parts/Time";
import { wordsOf } from "@/parts/waits";
import { addressOfWhy } from "@/parts/why";
import "./WhyWaits.css";

type Reason = Schemas["QueueReasonRow"];
type Wait = Schemas["WaitRow"];
const EVERY_MS = 1_000;

/** All that a run, or one step of it, waits for. */
export function WhyWaits({ run, step }: { run: string; step?: string | null }) {
  const asked = { run, ...(step ? { step } : {}) };
  const reasons = useList("/api/v1/queue", { query: asked }, { every: EVERY_MS });
  const runs = useList("/api/v1/runs", { query: { prefix: run, limit: 1 } }, { every: EVERY_MS });
  const found = reasons.rows.flatMap((row) => ("waits_for" in row ? [row] : []));
  const row = runs.rows[0];
  const others = (row?.waiting_for ?? []).filter(
    (wait) => !IN_LINE.has(wait.kind) && (!step || !wait.step || wait.step === step),
  );
  const isNone = found.length === 0 && others.length === 0;
  return (
    <section className="why" aria-label="Why it waits">
      <h2>
        Why does{" "}
        <Link to={`/runs/${run}`}>
          {row ? <ForeignText text={row.workflow} /> : "run"} <code>{shortRun(run)}</code>
        </Link>
        {step ? (
          <>
            {" / "}
            <code>{step}</code>
          </>
        ) : null}{" "}
        wait? <CopyButton text={`${location.origin}${addressOfWhy(run, step)}`} label="Copy a link to this answer" />
      </h2>
      <State
        isLoading={reasons.isLoading || runs.isLoading}
        problem={reasons.problem ?? runs.problem}
        again={reasons.again}
        noun="the reason"
      >
        {isNone ? (
          <p className="card">
            {row ? (
              <>
                It does not wait now. The run is <Status status={row.status} />
              </>
            ) : (
              "There is no such run, or it is another tenant's."
            )}
          </p>
        ) : null}
        {found.map((each) => (
          <Line
            key={`${each.step} ${each.model} ${each.since_ms}`}
            reason={each}
            isOne={step !== undefined && step !== null}
          />
        ))}
        {others.map((each) => (
          <Other key={`${each.kind} ${each.id}`} wait={each} run={run} />
        ))}
      </State>
    </section>
  );
}

/** Kinds of waits that `/queue` explains. */
const IN_LINE = new Set(["slot", "worker", "pool"]);

function Line({ reason, isOne }: { reason: Reason; isOne: boolean }) {
  return (
    <div className="card why-reason">
      <dl className="why-facts">
        {isOne ? null : <Fact name="Step">{<code>{reason.step}</code>}</Fact>}
        <Fact name="It needs">{needOf(reason)}</Fact>
        <Fact name="Free now">{freeOf(reason)}</Fact>
        <Fact name="Its place in line">{reason.waits_for === "nothing" ? "–" : reason.place || "not known"}</Fact>
        <Fact name="Waiting for">
          <Duration from={reason.since_ms} />
        </Fact>
        <Fact name="It starts">
          <Starts reason={reason} />
        </Fact>
      </dl>
      <Held reason={reason} />
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function needOf(reason: Reason): ReactNode {
  const { demand, model } = reason;
  const parts: ReactNode[] = (demand.labels ?? []).map((label) => (
    <>
      label <code>{label}</code>
    </>
  ));
  for (const tag of demand.tags ?? [])
    parts.push(
      <>
        tag <code>{tag}</code>
      </>,
    );
  if (demand.cpu_m) parts.push(`${demand.cpu_m / 1000} processor cores`);
  if (demand.memory_mb) parts.push(`${demand.memory_mb.toLocaleString("en-US")} MiB of memory`);
  if (demand.gpus) parts.push(`${demand.gpus} graphics processors`);
  for (const [pool, amount] of Object.entries(demand.pools ?? {})) {
    parts.push(
      <>
        {amount === null ? "some" : amount.toLocaleString("en-US")} of{" "}
        <Link to={`/pools/${encodeURIComponent(pool)}`}>{pool}</Link>
      </>,
    );
  }
  if (demand.task)
    parts.push(
      <>
        a worker with task <code>{demand.task}</code>
      </>,
    );
  if (parts.length === 0 && reason.pool) {
    parts.push(
      <>
        its part of <Link to={`/pools/${encodeURIComponent(reason.pool)}`}>{reason.pool}</Link>
      </>,
    );
  }
  if (parts.length === 0) parts.push("a free slot of a worker");
  if (model)
    parts.push(
      <>
        for a call of <code>{model}</code>
      </>,
    );
  return parts.map((part, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: parts of a sentence have no other identity
    <span key={index}>
      {index > 0 ? ", " : null}
      {part}
    </span>
  ));
}

function freeOf(reason: Reason): ReactNode {
  switch (reason.waits_for) {
    case "turn":
      return <Status status="waiting" words="not looked at yet" />;
    case "nothing":
      return <Status status="done" words="placed" />;
    case "worker":
      return <Status status="failed" tone={reason.possible ? "wait" : "bad"} words={lackingOf(reason)} />;
    default:
      return (
        <Status
          status={free(reason) > 0 ? "waiting" : "failed"}
          tone={free(reason) > 0 ? "wait" : "bad"}
          words={amounts(reason)}
        />
      );
  }
}

/** What no worker has. Hashes of workflows and names of shells are said in words. */
function lackingOf({ lacking, workflow }: Reason): string {
  if (lacking === "capacity") return "every worker is busy";
  if (lacking?.startsWith("able ")) return `no worker has the workflow ${workflow}`;
  return `no worker has ${lacking ?? "it"}`;
}

function free(reason: Reason): number {
  if (reason.limit === null) return 0;
  return reason.in_use === null ? Math.max(0, reason.level ?? 0) : reason.limit - reason.in_use;
}

function amounts(reason: Reason): string {
  if (reason.limit === null) return reason.pool ? "the pool is not declared" : "no worker has the workflow";
  const limit = reason.limit.toLocaleString("en-US");
  if (reason.in_use !== null) return `${Math.max(0, reason.limit - reason.in_use).toLocaleString("en-US")} of ${limit}`;
  return reason.level === null ? `of ${limit}` : `${Math.floor(reason.level).toLocaleString("en-US")} of ${limit}`;
}

/** When it starts, as far as the server knows. */
function Starts({ reason }: { reason: Reason }) {
  if (!reason.possible) return <>never, unless you add a worker that has it or enlarge a pool</>;
  if (reason.waits_for === "nothing") return <>now, with {reason.worker ?? "a worker"}</>;
  if (reason.starts_at) {
    return (
      <>
        about <Time at={reason.starts_at} />{" "}
        <span className="faint">
          {reason.learned_from > 0
            ? `if steps take as long as the last ${reason.learned_from === 1 ? "one" : reason.learned_from} did`
            : "when the pool has refilled"}
        </span>
      </>
    );
  }
  return reason.model || reason.waits_for === "turn" || !reason.holders.length ? (
    <>not known yet</>
  ) : (
    <>not known: no step of this kind has ended yet</>
  );
}

function Held({ reason }: { reason: Reason }) {
  const [run = "", step = ""] = reason.kept_for ?? [];
  return (
    <>
      {reason.holders.length === 0 ? null : (
        <div>
          <span className="muted">Held by, the longest first: </span>
          <ul className="why-holders">
            {reason.holders.map((holder) => {
              const cut = holder.indexOf("/");
              return (
                <li key={holder}>
                  <Holder run={holder.slice(0, cut)} step={holder.slice(cut + 1)} />
                </li>
              );
            })}
          </ul>
        </div>
      )}
      {run ? (
        <p className="muted">
          What comes back is kept for <Holder run={run} step={step} />.
        </p>
      ) : null}
    </>
  );
}

function Holder({ run, step }: { run: string; step: string }) {
  return (
    <Link to={`/runs/${run}`}>
      <code>
        {shortRun(run)} / {step}
      </code>
    </Link>
  );
}

/** What no line explains: a person, a timer, money, a child, a signal. */
function Other({ wait, run }: { wait: Wait; run: string }) {
  return (
    <div className="card why-reason">
      <dl className="why-facts">
        {wait.step ? <Fact name="Step">{<code>{wait.step}</code>}</Fact> : null}
        <Fact name="It is">
          {wait.kind === "gate" ? <Link to={`/inbox/${wait.id}`}>{wordsOf(wait)}</Link> : wordsOf(wait)}
          {wait.kind === "child" && wait.about ? (
            <>
              {" "}
              <Link to={`/runs/${wait.about}`}>open it</Link>
            </>
          ) : null}
          {wait.kind === "money" ? (
            <>
              {" "}
              <Link to={`/runs/${run}`}>its budget</Link>
            </>
          ) : null}
        </Fact>
        <Fact name="Reason">{wait.reason.replaceAll("_", " ")}</Fact>
        <Fact name="Waiting for">
          <Duration from={wait.since_ms} />
        </Fact>
        <Fact name="It ends by itself">{wait.due_at_ms ? <Time at={wait.due_at_ms} /> : "no"}</Fact>
      </dl>
    </div>
  );
}
