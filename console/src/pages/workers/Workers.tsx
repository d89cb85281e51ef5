import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import { ForeignText } from "@/parts/ForeignText";
import { Meter } from "@/parts/Meter";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Worker = Schemas["WorkerRow"];
interface Line extends Worker {
  /** The process that a remote worker is connected to. */
  of: string | null;
}

const EVERY_MS = 1_000;

const COLUMNS: readonly Column<Line>[] = [
  {
    name: "worker",
    title: "Worker",
    width: "minmax(0, 1.4fr)",
    narrow: "main",
    cell: (row) =>
      row.of ? (
        <span className="muted">
          ↳ <ForeignText text={row.worker} />
        </span>
      ) : (
        <strong>
          <ForeignText text={row.worker} />
        </strong>
      ),
  },
  {
    name: "state",
    title: "State",
    width: "100px",
    cell: (row) => (
      <Status status={row.working > 0 ? "running" : "completed"} words={row.working > 0 ? "at work" : "free"} />
    ),
  },
  {
    name: "load",
    title: "Slots at work",
    width: "minmax(0, 1.2fr)",
    cell: (row) => {
      const busy = row.slots - row.free;
      const words = `${busy} of ${row.slots}`;
      return (
        <span className="line">
          <Meter
            parts={[{ share: busy / Math.max(1, row.slots), tone: row.free > 0 ? "busy" : "bad" }]}
            label={`${words} slots at work`}
          />
          {words}
        </span>
      );
    },
  },
  { name: "working", title: "Steps", width: "60px", isNumber: true, narrow: "none", cell: (row) => row.working },
  { name: "placed", title: "Placed", width: "60px", isNumber: true, narrow: "none", cell: (row) => row.placed },
  {
    name: "labels",
    title: "Labels",
    width: "minmax(0, 1fr)",
    cell: (row) => (row.labels.length > 0 ? <code>{row.labels.join(", ")}</code> : <span className="faint">none</span>),
  },
  {
    name: "workflows",
    title: "Workflows",
    width: "76px",
    isNumber: true,
    narrow: "none",
    cell: (row) => row.workflows.length,
  },
  {
    name: "lane",
    title: "Lane",
    width: "minmax(0, 0.6fr)",
    narrow: "none",
    cell: (row) => <ForeignText text={row.lane} />,
  },
  { name: "said", title: "Unchanged", width: "84px", narrow: "none", cell: (row) => <Time at={row.said_at} /> },
];

export default function Workers() {
  const { rows, isLoading, problem, again } = useList("/api/v1/workers", {}, { every: EVERY_MS });
  const lines = rows.flatMap((row) => ("worker" in row ? linesOf(row) : []));
  const totals = rows.flatMap((row) => ("worker" in row ? [] : [row]));
  const slots = lines.reduce((sum, row) => sum + row.slots, 0);
  const busy = lines.reduce((sum, row) => sum + row.slots - row.free, 0);
  return (
    <Page title="Workers" facts={lines.length > 0 ? `${busy} of ${slots} slots at work` : null}>
      <State
        isLoading={isLoading}
        problem={problem}
        again={again}
        isEmpty={rows.length === 0}
        noun="workers"
        hint={
          <>
            Start one with <code>holdfast worker FILE.py:WORKFLOW</code>.
          </>
        }
      >
        {totals.map((each) => (
          <p key="totals" className="card">
            {each.workers} processes execute steps; {each.slots - each.free} of their {each.slots} slots are at work.
          </p>
        ))}
        {lines.length > 0 ? (
          <Table label="Workers" columns={COLUMNS} rows={lines} idOf={(row) => `${row.of ?? ""}/${row.worker}`} />
        ) : null}
      </State>
    </Page>
  );
}

function linesOf(row: Worker): Line[] {
  return [{ ...row, of: null }, ...row.connected.map((each) => ({ ...each, of: row.worker }))];
}
