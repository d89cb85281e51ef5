import { useSearchParams } from "react-router";
import { useCaller } from "@/api/caller";
import type { Schemas } from "@/api/client";
import { type Row, useList, useRow } from "@/api/queries";
import { ForeignText } from "@/parts/ForeignText";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { StepOfRun } from "@/parts/StepOfRun";
import { type Column, Table } from "@/parts/Table";
import { Duration } from "@/parts/Time";
import { WhyWaits } from "@/parts/WhyWaits";
import { addressOfWhy } from "@/parts/why";
import "./Queue.css";
import { RunLink } from "@/parts/RunLink";

type Step = Schemas["QueueRow"];
const EVERY_MS = 2_000;
const SUMMARY_EVERY_MS = 5_000;
const SHOWN_KINDS = 6;
const PAGE = 200;

const COLUMNS: readonly Column<Step>[] = [
  {
    name: "step",
    title: "Step",
    width: "minmax(0, 1.3fr)",
    narrow: "main",
    cell: (row) => <StepOfRun workflow={row.workflow} run={row.run} step={row.step} />,
  },
  { name: "demands", title: "Waits for", width: "minmax(0, 1.3fr)", cell: (row) => <ForeignText text={row.demands} /> },
  { name: "since", title: "Waiting", width: "96px", cell: (row) => <Duration from={row.since_ms} /> },
  {
    name: "ahead",
    title: "Ahead of it",
    width: "80px",
    isNumber: true,
    narrow: "none",
    cell: (row) => row.ahead.toLocaleString("en-US"),
  },
];
const TENANT: Column<Step> = {
  name: "tenant",
  title: "Tenant",
  width: "minmax(0, 0.6fr)",
  cell: (row) => <ForeignText text={row.tenant} />,
};
const idOf = (row: Step) => `${row.run}/${row.step}`;

/** Steps that wait for a slot, a worker or a pool; `run` and `step` of the address ask why one waits. */
export default function Queue() {
  const [address, setAddress] = useSearchParams();
  const run = address.get("run");
  const step = address.get("step");
  const kind = address.get("for") ?? "";
  const asked = { limit: PAGE, ...(kind ? { demands: kind } : {}) };
  const list = useList("/api/v1/queue", { query: asked }, { every: EVERY_MS });
  const kinds = useList("/api/v1/queue/summary", { query: { limit: SHOWN_KINDS } }, { every: SUMMARY_EVERY_MS });
  const isForAll = useCaller()?.tenant === null;
  // The line moves between two pages: a step that is on both stands where it was first.
  const rows = [...new Map(list.rows.flatMap((row) => ("ahead" in row ? [[idOf(row), row] as const] : []))).values()];
  const choose = (next: string) =>
    setAddress(
      (before) => {
        const changed = new URLSearchParams(before);
        if (next) changed.set("for", next);
        else changed.delete("for");
        return changed;
      },
      { replace: true },
    );
  return (
    <Page title="Queue" facts={<Admission />}>
      {run ? (
        <>
          <WhyWaits run={run} step={step} />
          <h2>All waiting steps</h2>
        </>
      ) : null}
      <Kinds rows={kinds.rows} hasMore={kinds.hasMore} chosen={kind} choose={choose} />
      {list.isBehind ? (
        <p>
          <button type="button" className="chip on" onClick={list.again}>
            Read the line again
          </button>
        </p>
      ) : null}
      <State
        isLoading={list.isLoading}
        problem={list.problem}
        again={list.again}
        isEmpty={rows.length === 0}
        noun="waiting steps"
        filter={kind ? `“${kind}”` : undefined}
        clear={() => choose("")}
        hint="Every step that is ready has what it needs."
      >
        <Table
          label="Waiting steps"
          columns={isForAll ? [...COLUMNS, TENANT] : COLUMNS}
          rows={rows}
          idOf={idOf}
          linkOf={(row) => addressOfWhy(row.run, row.step)}
          nameOf={(row) => `Why does ${row.workflow} ${shortRun(row.run)} ${row.step} wait?`}
          selected={run && step ? `${run}/${step}` : undefined}
          more={list.more}
          hasMore={list.hasMore}
        />
      </State>
    </Page>
  );
}

interface KindsProps {
  rows: readonly Row<"/api/v1/queue/summary">[];
  hasMore: boolean;
  chosen: string;
  choose: (kind: string) => void;
}

/** How many steps wait for the same, as the server counts them. A click shows only these. */
function Kinds({ rows, hasMore, chosen, choose }: KindsProps) {
  if (rows.length === 0) return null;
  return (
    <fieldset className="queue-kinds">
      <legend className="unseen">What steps wait for</legend>
      {rows.map(({ demands, steps }) => (
        <button
          key={demands}
          type="button"
          className="card queue-kind"
          aria-pressed={demands === chosen}
          onClick={() => choose(demands === chosen ? "" : demands)}
        >
          <span className="muted">
            {steps === 1 ? "step waits for" : "steps wait for"} <ForeignText text={demands} />
          </span>
          <span className="queue-count">{steps.toLocaleString("en-US")}</span>
        </button>
      ))}
      {hasMore ? <span className="muted">Fewer steps wait for other things.</span> : null}
    </fieldset>
  );
}

/** Runs that wait for a place among the active ones. */
function Admission() {
  const { row } = useRow("/api/v1/admission", undefined, { every: EVERY_MS });
  if (!row || (row.cap === null && row.waiting.length === 0)) return null;
  const [first] = row.waiting;
  return (
    <span>
      {row.scope}: {row.active.toLocaleString("en-US")}
      {row.cap === null ? "" : ` of ${row.cap.toLocaleString("en-US")}`}
      {first ? (
        <>
          , {row.waiting.length.toLocaleString("en-US")} wait for a place, first <RunLink run={first} />
        </>
      ) : null}
    </span>
  );
}
