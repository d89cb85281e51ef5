import type { Row } from "@/api/queries";
import { ForeignText } from "@/parts/ForeignText";
import { ListPage } from "@/parts/ListPage";
import { Money } from "@/parts/Money";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Evaluation = Row<"/api/v1/evals">;

export function Verdict({ met }: { met: boolean }) {
  return met ? <Status status="completed" words="met" /> : <Status status="failed" words="not met" />;
}

const COLUMNS: readonly Column<Evaluation>[] = [
  { name: "met", title: "Result", width: "96px", cell: (row) => <Verdict met={row.met} /> },
  {
    name: "suite",
    title: "Suite",
    width: "minmax(0, 1.6fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.suite} />
      </strong>
    ),
  },
  {
    name: "workflow",
    title: "Workflow",
    width: "minmax(0, 1.2fr)",
    cell: (row) => (
      <>
        <ForeignText text={row.workflow} /> <span className="faint">version {row.version}</span>
      </>
    ),
  },
  {
    name: "passed",
    title: "Passed",
    width: "90px",
    isNumber: true,
    cell: (row) => (
      <>
        {row.passed} <span className="faint">of {row.scenarios}</span>
      </>
    ),
  },
  { name: "replayed", title: "Replayed", width: "76px", isNumber: true, narrow: "none", cell: (row) => row.replayed },
  { name: "cost", title: "Cost", width: "110px", isNumber: true, cell: (row) => <Money usd={row.cost_usd} /> },
  {
    name: "by",
    title: "Saved by",
    width: "minmax(0, 0.8fr)",
    narrow: "none",
    cell: (row) => <ForeignText text={row.by ?? row.by_os_user ?? row.by_client ?? "–"} />,
  },
  { name: "at", title: "Saved", width: "104px", cell: (row) => <Time at={row.at} /> },
];

export default function Evals() {
  return (
    <ListPage
      title="Evaluations"
      noun="evaluations"
      path="/api/v1/evals"
      filters={[{ name: "workflow", title: "Workflow" }]}
      columns={COLUMNS}
      idOf={(row) => row.evaluation_id}
      linkOf={(row) => `/evals/${row.evaluation_id}`}
      nameOf={(row) => `Evaluation of ${row.suite}`}
      tenantOf={(row) => row.tenant}
      every={10_000}
      isNewestFirst
      hint={
        <>
          Keep the result of a suite with <code>holdfast eval SUITE --keep</code>.
        </>
      }
    />
  );
}
