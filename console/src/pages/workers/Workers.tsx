import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import { ForeignText } from "@/parts/ForeignText";
import { Meter } from "@/parts/Meter";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
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
  { name: "state", title: "State", width: "minmax(0, 1.1fr)", cell: (row) => <WorkerState row={row} /> },
  { name: "load", title: "Slots at work", width: "minmax(0, 1.2fr)", cell: (row) => <Load row={row} /> },
  {
    name: "steps",
    title: "Works at",
    width: "minmax(0, 1.5fr)",
    narrow: "none",
    cell: (row) => <Steps row={row} />,
  },
  {
    name: "labels",
    title: "Labels",
    width: "minmax(0, 0.8fr)",
    narrow: "none",
    cell: (row) => (row.labels.length > 0 ? <code>{row.labels.join(", ")}</code> : <span className="faint">none</span>),
  },
  {
    name: "workflows",
    title: "Workflows",
    width: "72px",
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
];

function WorkerState({ row }: { row: Line }) {
  if (row.state === "lost") {
    return (
      <>
        <Status status="lost" /> <Time at={row.lost_at} />
      </>
    );
  }
  return row.working > 0 ? <Status status="running" words="at work" /> : <Status status="completed" words="free" />;
}

function Load({ row }: { row: Line }) {
  if (row.state === "lost") return <span className="faint">its work goes to others</span>;
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
}

/** The first steps that it works at, or worked at when it was lost. */
function Steps({ row }: { row: Line }) {
  const [first, ...others] = row.steps;
  if (first === undefined) return <span className="faint">–</span>;
  const [run = "", step = ""] = split(first);
  const more = Math.max(others.length, row.working - 1);
  return (
    <>
      <Link to={`/runs/${run}`}>
        <code>
          {shortRun(run)} / {step}
        </code>
      </Link>
      {more > 0 ? <span className="faint"> and {more} more</span> : null}
    </>
  );
}

/** `RUN/STEP`, of which only the step may have slashes. */
function split(key: string): [run: string, step: string] {
  const cut = key.indexOf("/");
  return [key.slice(0, cut), key.slice(cut + 1)];
}

export default function Workers() {
  const { rows, isLoading, problem, again } = useList("/api/v1/workers", {}, { every: EVERY_MS });
  const lines = rows.flatMap((row) => ("worker" in row ? linesOf(row) : []));
  const totals = rows.flatMap((row) => ("worker" in row ? [] : [row]));
  const live = lines.filter((row) => row.state === "live");
  const slots = live.reduce((sum, row) => sum + row.slots, 0);
  const busy = live.reduce((sum, row) => sum + row.slots - row.free, 0);
  const lost = lines.length - live.length;
  return (
    <Page
      title="Workers"
      facts={
        lines.length === 0 ? null : (
          <>
            <span>
              {busy} of {slots} slots at work
            </span>
            {lost > 0 ? <span>{lost} lost in the last hour</span> : null}
          </>
        )
      }
    >
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
            {each.workers === 1 ? "1 process executes" : `${each.workers} processes execute`} steps;{" "}
            {each.slots - each.free} of {each.slots} slots are at work.
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
