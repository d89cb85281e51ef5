import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { share } from "@/parts/amount";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { shortRun, startKey } from "@/parts/runs";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Duration, Time } from "@/parts/Time";
import { wordsOf } from "@/parts/waits";
import "./Runs.css";

type Run = Schemas["RunRow"];

/** The columns of a list of runs. */
export function useColumns(rows: readonly (Run | { run_id: string })[]): Column<Run>[] {
  const widest = useMemo(() => placesOf(rows), [rows]);
  return useMemo(() => columns(widest), [widest]);
}

/** Places after the point, without a look at each amount as a number: there may be very many. */
function placesOf(rows: readonly (Run | { run_id: string })[]): number {
  let most = 0;
  for (const row of rows) {
    const usd = "cost_usd" in row ? row.cost_usd : "0.00";
    if (usd !== "0.00") most = Math.max(most, usd.length - usd.indexOf("."));
  }
  return most;
}

function columns(widest: number): Column<Run>[] {
  return [
    {
      name: "status",
      title: "Status",
      width: "minmax(150px, 1.1fr)",
      cell: (run) => <Status status={run.status} words={waitingWords(run)} />,
    },
    {
      name: "workflow",
      title: "Workflow",
      width: "minmax(150px, 2fr)",
      narrow: "main",
      cell: (run) => (
        <>
          <strong>{run.workflow}</strong>{" "}
          {startKey(run) ? (
            <span className="faint">
              <ForeignText text={startKey(run) ?? ""} />
            </span>
          ) : null}
        </>
      ),
    },
    {
      name: "id",
      title: "Run",
      width: "104px",
      narrow: "none",
      cell: (run) => (
        <>
          <code className="faint">{shortRun(run.run_id)}</code>{" "}
          <CopyButton text={run.run_id} label="Copy the run's id" />
        </>
      ),
    },
    {
      name: "cost",
      title: "Cost",
      width: "104px",
      isNumber: true,
      cell: (run) => <Money usd={run.cost_usd} places={widest} />,
    },
    {
      name: "spent",
      title: "Spent and held",
      width: "92px",
      narrow: "none",
      cell: (run) => <Spent run={run} />,
    },
    {
      name: "limit",
      title: "Limit",
      width: "80px",
      narrow: "none",
      cell: (run) => (
        <span className="faint">
          {run.limit_usd === null ? (
            "no limit"
          ) : (
            <>
              of <Money usd={run.limit_usd} />
            </>
          )}
        </span>
      ),
    },
    {
      name: "waiting",
      title: "Waiting",
      width: "84px",
      isNumber: true,
      narrow: "none",
      cell: (run) => {
        const since = run.ended_at ? undefined : run.waiting_for[0]?.since_ms;
        return since === undefined ? <span className="faint">–</span> : <Duration from={since} />;
      },
    },
    {
      name: "started",
      title: "Started",
      width: "84px",
      isNumber: true,
      cell: (run) => (
        <span className="faint">
          <Time at={run.started_at} />
        </span>
      ),
    },
  ];
}

function waitingWords(run: Run): string | undefined {
  const first = run.waiting_for[0];
  if (run.status !== "waiting" || !first) return undefined;
  const more = run.waiting_for.length - 1;
  return more > 0 ? `${wordsOf(first)} and ${more} more` : wordsOf(first);
}

function Spent({ run }: { run: Run }) {
  if (run.limit_usd === null) return null;
  const spent = share(run.cost_usd, run.limit_usd);
  const held = Math.min(1 - spent, share(run.held_usd, run.limit_usd));
  return (
    <div className="bar" role="img" aria-label={`${percent(spent)} spent, ${percent(held)} held`}>
      <i className="runs-spent" style={{ width: `${spent * 100}%` }} />
      <i className="runs-held" style={{ width: `${held * 100}%` }} />
    </div>
  );
}

function percent(ratio: number): string {
  return `${Math.round(ratio * 100)} %`;
}
