import { Link } from "react-router";
import { type Row, useList } from "@/api/queries";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import type { Filter } from "@/parts/filters";
import { ListPage } from "@/parts/ListPage";
import { shortRun } from "@/parts/runs";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Entry = Row<"/api/v1/audit">;

const COLUMNS: readonly Column<Entry>[] = [
  { name: "number", title: "No.", width: "56px", cell: (row) => row.number },
  { name: "at", title: "Time", width: "214px", cell: (row) => <Time at={row.at} kind="exact" /> },
  {
    name: "name",
    title: "Who",
    width: "minmax(0, 0.8fr)",
    cell: (row) => (
      <>
        <ForeignText text={row.name ?? row.client ?? row.os_user ?? "not named"} />{" "}
        {row.name && !row.verified ? <span className="faint">claimed</span> : null}
      </>
    ),
  },
  {
    name: "origin",
    title: "From",
    width: "minmax(0, 0.7fr)",
    narrow: "none",
    cell: (row) => row.origin ?? <span className="faint">this machine</span>,
  },
  {
    name: "action",
    title: "Action",
    width: "minmax(0, 1.3fr)",
    narrow: "main",
    cell: (row) => <strong>{row.action}</strong>,
  },
  {
    name: "about",
    title: "About",
    width: "minmax(0, 1.5fr)",
    narrow: "main",
    cell: (row) => <About about={row.about} />,
  },
  {
    name: "outcome",
    title: "Outcome",
    width: "minmax(0, 0.8fr)",
    cell: (row) =>
      row.outcome === "done" ? (
        <Status status="done" />
      ) : (
        <Status status="failed" words={row.outcome.replaceAll("_", " ")} />
      ),
  },
  {
    name: "hash",
    title: "Hash",
    width: "88px",
    narrow: "none",
    cell: (row) => (
      <>
        <code title={row.hash}>{row.hash.slice(0, 8)}</code> <CopyButton text={row.hash} label="Copy the hash" />
      </>
    ),
  },
];

const RUN = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=:|\/|$)/;

const GATE = /^[^:\s]+:[^:\s]+:\d+$/;

/** A gate's id leads to the gate, which says what was decided. What is in a run has the run's id in front, and leads there. */
function About({ about }: { about: string | null }) {
  if (about === null) return <span className="faint">–</span>;
  const run = RUN.exec(about)?.[0];
  if (run === undefined) return <ForeignText text={about} />;
  return (
    <Link to={GATE.test(about) ? `/inbox/${encodeURIComponent(about)}` : `/runs/${run}`} title={about}>
      <code>{shortRun(run)}</code>
      <ForeignText text={about.slice(run.length)} />
    </Link>
  );
}

const ACTIONS = [
  ...["Start", "Decide", "Delegate", "Reassign", "Cancel", "Pause", "Resume", "Retry", "Fork", "Signal", "Extend"],
  ...["RaiseBudget", "Resolve", "Reconcile", "EditDeadLetter", "RetryDeadLetter", "ResolveDeadLetter", "Bulk"],
  ...[
    "BulkDeadLetters",
    "SetPool",
    "SetBudget",
    "SetSchedule",
    "MakeKey",
    "RotateKey",
    "RevokeKey",
    "SignIn",
    "SignOut",
  ],
  ...["LogIn", "EndSession", "EndSessions"],
];

const FILTERS: readonly Filter[] = [
  { name: "name", title: "Who" },
  { name: "action", title: "Action", suggestions: ACTIONS },
  { name: "about", title: "Run, gate or name" },
  { name: "since_ms", title: "From", isDate: true },
  { name: "until_ms", title: "Before", isDate: true },
];
const NEWEST = { order: "newest" } as const;

export default function Audit() {
  const { rows } = useList("/api/v1/audit/head", {}, { every: 10_000 });
  const head = rows[0];
  return (
    <ListPage
      title="Audit"
      noun="entries"
      path="/api/v1/audit"
      query={NEWEST}
      filters={FILTERS}
      isNewestFirst
      every={10_000}
      hint="Each command from outside leaves an entry here."
      columns={COLUMNS}
      idOf={(row) => String(row.number)}
      tenantOf={(row) => row.kept_for}
      facts={
        head ? (
          <>
            {head.number.toLocaleString("en-US")} entries in all · last hash{" "}
            <code title={head.hash}>{head.hash.slice(0, 8)}</code>
            <CopyButton text={head.hash} label="Copy the last hash" />
            {head.signature ? " · signed" : " · not signed"}
          </>
        ) : null
      }
    />
  );
}
