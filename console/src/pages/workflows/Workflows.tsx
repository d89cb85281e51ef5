import type { Row } from "@/api/queries";
import { processesOf } from "@/pages/workflows/definition";
import { ForeignText } from "@/parts/ForeignText";
import { ListPage } from "@/parts/ListPage";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Workflow = Row<"/api/v1/workflows">;

const COLUMNS: readonly Column<Workflow>[] = [
  {
    name: "workflow",
    title: "Workflow",
    width: "minmax(0, 2fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.workflow} />
      </strong>
    ),
  },
  { name: "version", title: "Version", width: "80px", narrow: "side", cell: (row) => row.version },
  {
    name: "processes",
    title: "Can run it",
    width: "minmax(0, 1.2fr)",
    cell: (row) => <span className={row.processes === 0 ? "faint" : ""}>{processesOf(row)}</span>,
  },
  {
    name: "origin",
    title: "From",
    width: "minmax(0, 1fr)",
    narrow: "none",
    cell: (row) => (row.tenant === null ? "code" : <ForeignText text={`a file of ${row.tenant}`} />),
  },
  {
    name: "loaded",
    title: "First loaded",
    width: "120px",
    cell: (row) => (row.loaded_at ? <Time at={row.loaded_at} /> : <span className="faint">–</span>),
  },
];

export function addressOf(name: string, version?: number): string {
  const path = `/workflows/${encodeURIComponent(name)}`;
  return version === undefined ? path : `${path}?version=${version}`;
}

/** The workflows that processes have loaded, or that were submitted as files. */
export default function Workflows() {
  return (
    <ListPage
      title="Workflows"
      noun="workflows"
      path="/api/v1/workflows"
      columns={COLUMNS}
      idOf={(row) => `${row.workflow} ${row.version} ${row.tenant ?? ""}`}
      linkOf={(row) => addressOf(row.workflow, row.version)}
      nameOf={(row) => `${row.workflow}, version ${row.version}`}
      every={10_000}
      hint={
        <>
          A process brings its own: <code>holdfast dev FILE.py:WORKFLOW</code>.
        </>
      }
    />
  );
}
