import { useCallback, useMemo } from "react";
import { useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import { has, isRunId, parse, STATUSES, toggled } from "@/pages/runs/filter";
import { useAddress } from "@/parts/address";
import { places, share } from "@/parts/amount";
import { CopyButton } from "@/parts/CopyButton";
import { FilterBar } from "@/parts/FilterBar";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { useNow } from "@/parts/now";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { useSettled } from "@/parts/settled";
import { type Column, Table } from "@/parts/Table";
import { Duration, Time } from "@/parts/Time";
import { wordsOf } from "@/parts/waits";
import "./Runs.css";

type Run = Schemas["RunRow"];
const MINUTE_MS = 60_000;
const idOf = (run: Run) => run.run_id;

/** The list of runs, filtered on the server. The filter is in the address. */
export default function Runs() {
  const [text, setText] = useAddress("q");
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const { query, wrong } = useMemo(() => parse(text, minute), [text, minute]);
  const list = useList("/api/v1/runs", { query: { ...query, limit: 100 } }, { every: 2_000 });
  const { rows, fresh, show } = useSettled(list.rows, idOf, text);
  const navigate = useNavigate();
  const open = useCallback(
    (pasted: string) => {
      if (!isRunId(pasted)) return false;
      void navigate(`/runs/${pasted}`);
      return true;
    },
    [navigate],
  );
  const widest = places(rows.map((run) => run.cost_usd));
  const columns: Column<Run>[] = [
    {
      name: "status",
      title: "Status",
      width: "minmax(140px, 1.1fr)",
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
          {run.key ? (
            <span className="faint">
              <ForeignText text={run.key} />
            </span>
          ) : null}
        </>
      ),
    },
    {
      name: "id",
      title: "Run",
      width: "92px",
      narrow: "none",
      cell: (run) => (
        <>
          <code className="faint">{run.run_id.slice(0, 8)}</code>{" "}
          <CopyButton text={run.run_id} label="Copy the run's id" />
        </>
      ),
    },
    {
      name: "cost",
      title: "Cost",
      width: "92px",
      isNumber: true,
      cell: (run) => <Money usd={run.cost_usd} places={widest} />,
    },
    {
      name: "spent",
      title: "Spent and held",
      width: "88px",
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
      width: "80px",
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
      width: "80px",
      isNumber: true,
      cell: (run) => (
        <span className="faint">
          <Time at={run.started_at} />
        </span>
      ),
    },
  ];
  return (
    <Page title="Runs">
      <FilterBar
        text={text}
        onChange={setText}
        open={open}
        label="Filter runs"
        placeholder="Text, tag:pilot, cost:>0.004, started:<24h, or a run id"
        wrong={wrong}
      >
        {STATUSES.map((status) => {
          const word = `status:${status}`;
          const isOn = has(text, word);
          return (
            <button
              key={status}
              type="button"
              className={isOn ? "chip on" : "chip"}
              aria-pressed={isOn}
              onClick={() => setText(toggled(text, word))}
            >
              {status.replaceAll("_", " ")}
            </button>
          );
        })}
        <span className="faint right">
          {fresh > 0 ? (
            <button type="button" className="chip on" onClick={show}>
              {fresh} new
            </button>
          ) : (
            "newest first"
          )}
        </span>
      </FilterBar>
      <State
        isLoading={list.isLoading}
        problem={list.problem}
        again={list.again}
        isEmpty={rows.length === 0}
        noun="runs"
        filter={text || undefined}
        clear={() => setText("")}
        hint={
          <>
            Start one with <code>holdfast run</code>, or from the page of a workflow.
          </>
        }
      >
        <Table
          label="Runs"
          columns={columns}
          rows={rows}
          idOf={idOf}
          linkOf={(run) => `/runs/${run.run_id}`}
          nameOf={(run) => `${run.workflow}, ${run.status.replaceAll("_", " ")}, ${run.run_id.slice(0, 8)}`}
          more={list.more}
          hasMore={list.hasMore}
        />
      </State>
    </Page>
  );
}

function waitingWords(run: Run): string | undefined {
  const first = run.waiting_for[0];
  return run.status === "waiting" && first ? wordsOf(first) : undefined;
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
