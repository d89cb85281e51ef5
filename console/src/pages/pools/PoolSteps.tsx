import { count, type PoolWhole } from "@/pages/pools/pool";
import { ForeignText } from "@/parts/ForeignText";
import { shortRun } from "@/parts/runs";
import { StepOfRun } from "@/parts/StepOfRun";
import { type Column, Table } from "@/parts/Table";
import { Duration, Time } from "@/parts/Time";
import { addressOfWhy } from "@/parts/why";

type Holder = PoolWhole["holders"][number];
type Waiter = PoolWhole["waiting"][number];

const STEP: Column<Holder> = {
  name: "step",
  title: "Step",
  width: "minmax(0, 2fr)",
  narrow: "main",
  cell: (row) => <StepOfRun workflow={row.workflow} run={row.run} step={row.step} />,
};
const TENANT: Column<Holder> = {
  name: "tenant",
  title: "Tenant",
  width: "minmax(0, 1fr)",
  cell: (row) => <ForeignText text={row.tenant} />,
};
const AMOUNT: Column<Holder> = {
  name: "amount",
  title: "Units",
  width: "90px",
  isNumber: true,
  cell: (row) => count(row.amount),
};
const MODEL: Column<Waiter> = {
  name: "model",
  title: "Calls",
  width: "minmax(0, 1fr)",
  cell: (row) => (row.model === null ? null : <code>{row.model}</code>),
};
const WAITS: readonly Column<Waiter>[] = [
  { name: "since", title: "Waiting", width: "96px", cell: (row) => <Duration from={row.since_ms} /> },
  {
    name: "starts",
    title: "It starts",
    width: "110px",
    cell: (row) =>
      row.starts_at === null ? (
        <span className="faint">see why</span>
      ) : (
        <>
          about <Time at={row.starts_at} />
        </>
      ),
  },
];
const nameOf = (row: Holder) => `${row.workflow} ${shortRun(row.run)} ${row.step}`;

/** Steps that hold something of a pool. */
export function PoolHolders({ rows }: { rows: readonly Holder[] }) {
  return (
    <Table
      label="Steps that hold it"
      columns={[STEP, TENANT, AMOUNT]}
      rows={rows}
      idOf={(row) => `${row.run}/${row.step}`}
      linkOf={(row) => `/runs/${row.run}`}
      nameOf={nameOf}
    />
  );
}

/** Steps, or model calls of steps, that wait for a pool. Each leads to the answer why. */
export function PoolWaiters({ label, rows }: { label: string; rows: readonly Waiter[] }) {
  const hasCalls = rows.some((row) => row.model !== null);
  return (
    <Table
      label={label}
      columns={[STEP, ...(hasCalls ? [MODEL] : []), TENANT, AMOUNT, ...WAITS]}
      rows={rows}
      idOf={(row) => `${row.run}/${row.step}/${row.model ?? ""}/${row.since_ms}`}
      linkOf={(row) => addressOfWhy(row.run, row.step)}
      nameOf={(row) => `Why does it wait: ${nameOf(row)}`}
    />
  );
}
