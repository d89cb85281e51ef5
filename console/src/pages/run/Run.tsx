import { Suspense } from "react";
import { Link, Navigate, useParams, useSearchParams } from "react-router";
import { useList, useRow } from "@/api/queries";
import { useDone } from "@/pages/run/done";
import { RunActions } from "@/pages/run/RunActions";
import { RunMoney } from "@/pages/run/RunMoney";
import { RunNotes } from "@/pages/run/RunNotes";
import { type RunWhole, TABS, type Tab } from "@/pages/run/tabs";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { useKeys } from "@/parts/keys";
import { Page } from "@/parts/Page";
import { isRunBeginning, isRunId, shortRun, startKey } from "@/parts/runs";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { Duration, Time } from "@/parts/Time";
import { wordsOf } from "@/parts/waits";
import "./Run.css";

/** Of another tab nothing of these holds. */
const OF_A_TAB = ["step", "zoom", "event", "call", "effect"];

/** A run, by its id or by as much of the beginning as no other has. */
export default function Run() {
  const { run: id = "" } = useParams();
  return isRunBeginning(id) && !isRunId(id) ? <ByBeginning beginning={id.toLowerCase()} /> : <Whole id={id} />;
}

function ByBeginning({ beginning }: { beginning: string }) {
  const [params] = useSearchParams();
  const found = useList("/api/v1/runs", { query: { prefix: beginning, limit: 2 } });
  const [run, other] = found.rows;
  if (run && other) return <Navigate to={`/runs?${new URLSearchParams({ q: beginning })}`} replace />;
  if (run) return <Navigate to={{ pathname: `/runs/${run.run_id}`, search: params.toString() }} replace />;
  // Nothing begins so, or nothing that may be seen: the server says it in the words for a whole id.
  return found.isLoading || found.problem ? (
    <Page title="Run" above={<Above />}>
      <State isLoading={found.isLoading} problem={found.problem} again={found.again} noun="the run" />
    </Page>
  ) : (
    <Whole id={beginning} />
  );
}

/** What a run is, what it has spent, and what it did, by tabs. */
function Whole({ id }: { id: string }) {
  const found = useRow("/api/v1/runs/{run}", { path: { run: id } });
  const run = found.row;
  if (!run) {
    return (
      <Page title="Run" above={<Above />}>
        <State isLoading={found.isLoading} problem={found.problem} again={found.again} noun="the run" />
        {found.problem ? null : <Ahead run={id} />}
      </Page>
    );
  }
  return (
    <Page title={run.workflow} above={<Above />} facts={<Facts run={run} />} actions={<RunActions run={run} />}>
      <State problem={found.problem} again={found.again}>
        <RunNotes run={run} />
        <RunMoney run={run} />
        <Tabs run={run} />
      </State>
    </Page>
  );
}

/** Has the timeline read while the run itself still is. */
function Ahead({ run }: { run: string }) {
  const [params] = useSearchParams();
  return params.has("tab") ? null : <AheadOfTimeline run={run} />;
}

function AheadOfTimeline({ run }: { run: string }) {
  useDone(run);
  return null;
}

function Above() {
  return (
    <span className="faint">
      <Link className="plain" to="/runs">
        Runs
      </Link>{" "}
      /
    </span>
  );
}

function Facts({ run }: { run: RunWhole }) {
  const first = run.waiting_for[0];
  const key = startKey(run);
  return (
    <>
      <Status status={run.status} words={run.status === "waiting" && first ? wordsOf(first) : undefined} />
      {key ? (
        <span>
          <span className="faint">key</span> <ForeignText text={key} />
        </span>
      ) : null}
      <span className="run-id">
        <code className="faint" title={run.run_id}>
          {shortRun(run.run_id)}
        </code>{" "}
        <CopyButton text={run.run_id} label="Copy the run's id" />
      </span>
      <span className="faint">
        started <Time at={run.started_at} />, {run.ended_at ? "took" : "for"}{" "}
        <Duration from={run.started_at} to={run.ended_at} />
      </span>
    </>
  );
}

function Tabs({ run }: { run: RunWhole }) {
  const [params, setParams] = useSearchParams();
  const open = TABS.find((tab) => tab.name === params.get("tab")) ?? TABS[0];
  const addressOf = (tab: Tab) => {
    const next = new URLSearchParams(params);
    for (const name of OF_A_TAB) next.delete(name);
    if (tab === TABS[0]) next.delete("tab");
    else next.set("tab", tab.name);
    return next;
  };
  useKeys(
    TABS.map((tab, index) => ({
      key: String(index + 1),
      words: tab.title,
      run: () => setParams(addressOf(tab)),
    })),
  );
  if (!open) return null;
  return (
    <>
      <nav className="tabs" aria-label="Views of the run">
        {TABS.map((tab) => {
          const count = tab.count?.(run) ?? "";
          return (
            <Link
              key={tab.name}
              to={`?${addressOf(tab)}`}
              preventScrollReset
              aria-current={tab === open ? "page" : undefined}
            >
              {tab.title}
              {count ? <span className="faint num"> {count}</span> : null}
            </Link>
          );
        })}
      </nav>
      <Suspense fallback={<State isLoading noun={open.title.toLowerCase()} />}>
        <open.Content key={run.run_id} run={run} />
      </Suspense>
    </>
  );
}
