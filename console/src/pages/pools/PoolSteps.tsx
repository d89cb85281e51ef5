import { count, type PoolWhole } from "@/pages/pools/pool";
import { ForeignText } from "@/parts/ForeignText";
import { shortRun } from "@/parts/runs";
import { StepOfRun } from "@/parts/StepOfRun";
import { type Column, Table } from "@/parts/Table";
import { addressOfWhy } from "@/parts/why";

type PoolStep = PoolWhole["holders"][number];

interface Props {
  label: string;
  rows: readonly PoolStep[];
  /** Rows lead to the answer why they wait, or to their runs. */
  waits?: boolean;
}

const COLUMNS: readonly Column<PoolStep>[] = [
  {
    name: "step",
    title: "Step",
    width: "minmax(0, 2fr)",
    narrow: "main",
    cell: (row) => <StepOfRun workflow={row.workflow} run={row.run} step={row.step} />,
  },
  { name: "tenant", title: "Tenant", width: "minmax(0, 1fr)", cell: (row) => <ForeignText text={row.tenant} /> },
  { name: "amount", title: "Units", width: "80px", isNumber: true, cell: (row) => count(row.amount) },
];

/** Steps that hold something of a pool, or wait for it. */
export function PoolSteps({ label, rows, waits = false }: Props) {
  return (
    <Table
      label={label}
      columns={COLUMNS}
      rows={rows}
      idOf={(row) => `${row.run}/${row.step}`}
      linkOf={(row) => (waits ? addressOfWhy(row.run, row.step) : `/runs/${row.run}`)}
      nameOf={(row) => `${waits ? "Why does it wait: " : ""}${row.workflow} ${shortRun(row.run)} ${row.step}`}
    />
  );
}
