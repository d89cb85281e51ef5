import { Link, useSearchParams } from "react-router";
import { useCaller } from "@/api/caller";
import type { Schemas } from "@/api/client";
import { useList, useRow } from "@/api/queries";
import { ForeignText } from "@/parts/ForeignText";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { StepOfRun } from "@/parts/StepOfRun";
import { type Column, Table } from "@/parts/Table";
import { WhyWaits } from "@/parts/WhyWaits";
import { addressOfWhy } from "@/parts/why";
import "./Queue.css";

type Step = Schemas["QueueRow"];
const EVERY_MS = 2_000;
const SHOWN_KINDS = 6;

const COLUMNS: readonly Column<Step>[] = [
  {
    name: "step",
    title: "Step",
    width: "minmax(0, 1.3fr)",
    narrow: "main",
    cell: (row) => <StepOfRun workflow={row.workflow} run={row.run} step={row.step} />,
  },
  { name: "demands", title: "Waits for", width: "minmax(0, 1.3fr)", cell: (row) => <ForeignText text={row.demands} /> },
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

/** Steps that wait for a slot, a worker or a pool; `run` and `step` of the address ask why one waits. */
export default function Queue() {
  const [address, setAddress] = useSearchParams();
  const run = address.get("run");
  const step = address.get("step");
  const kind = address.get("for") ?? "";
  const list = useList("/api/v1/queue", {}, { every: EVERY_MS });
  const isForAll = useCaller()?.tenant === null;
  const all = list.rows.flatMap((row) => ("ahead" in row ? [row] : []));
  const rows = kind ? all.filter((row) => row.demands === kind) : all;
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
    <Page
      title="Queue"
      facts={
        <>
          {list.isLoading ? null : (
            <span>
              {all.length.toLocaleString("en-US")} {all.length === 1 ? "step waits" : "steps wait"}
            </span>
          )}
          <Admission />
        </>
      }
    >
      {run ? (
        <>
          <WhyWaits run={run} step={step} />
          <h2>All waiting steps</h2>
        </>
      ) : null}
      {all.length > 0 ? <Kinds rows={all} chosen={kind} choose={choose} /> : null}
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
          idOf={(row) => `${row.run}/${row.step}`}
          linkOf={(row) => addressOfWhy(row.run, row.step)}
          nameOf={(row) => `Why does ${row.workflow} ${shortRun(row.run)} ${row.step} wait?`}
          selected={run && step ? `${run}/${step}` : undefined}
        />
      </State>
    </Page>
  );
}

/** How many steps wait for the same. A click shows only these. */
function Kinds({ rows, chosen, choose }: { rows: readonly Step[]; chosen: string; choose: (kind: string) => void }) {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(row.demands, (counts.get(row.demands) ?? 0) + 1);
  const kinds = [...counts].sort((one, other) => other[1] - one[1]);
  return (
    <fieldset className="queue-kinds">
      <legend className="unseen">What steps wait for</legend>
      {kinds.slice(0, SHOWN_KINDS).map(([kind, count]) => (
        <button
          key={kind}
          type="button"
          className="card queue-kind"
          aria-pressed={kind === chosen}
          onClick={() => choose(kind === chosen ? "" : kind)}
        >
          <span className="muted">
            Waiting for <ForeignText text={kind} />
          </span>
          <span className="queue-count">{count.toLocaleString("en-US")}</span>
        </button>
      ))}
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
          , {row.waiting.length.toLocaleString("en-US")} wait for a place, first{" "}
          <Link to={`/runs/${first}`}>
            <code>{shortRun(first)}</code>
          </Link>
        </>
      ) : null}
    </span>
  );
}
