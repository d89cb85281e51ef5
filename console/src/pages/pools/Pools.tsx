import type { Row } from "@/api/queries";
import { addressOf, count, countsOf, limitOf } from "@/pages/pools/pool";
import { SetPool } from "@/pages/pools/SetPool";
import { ForeignText } from "@/parts/ForeignText";
import { ListPage } from "@/parts/ListPage";
import { Meter } from "@/parts/Meter";
import type { Column } from "@/parts/Table";

type Pool = Row<"/api/v1/pools">;

const COLUMNS: readonly Column<Pool>[] = [
  {
    name: "name",
    title: "Pool",
    width: "minmax(0, 1.4fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.name} />
      </strong>
    ),
  },
  { name: "limit", title: "Limit", width: "minmax(0, 1.2fr)", cell: limitOf },
  { name: "counts", title: "Counts", width: "minmax(0, 1fr)", narrow: "none", cell: countsOf },
  { name: "use", title: "In use", width: "minmax(0, 1.2fr)", cell: (row) => <Use row={row} /> },
  {
    name: "wanted",
    title: "Asked for",
    width: "84px",
    isNumber: true,
    narrow: "none",
    cell: (row) => count(row.wanted),
  },
];

function Use({ row }: { row: Pool }) {
  const used = row.in_use;
  const words = row.kind === "slots" ? `${count(used)} of ${count(row.limit)}` : `${count(used)} in flight`;
  return (
    <span className="line">
      {row.kind === "slots" ? (
        <Meter
          parts={[{ share: used / row.limit, tone: used >= row.limit ? "bad" : "busy" }]}
          label={`${words} in use`}
        />
      ) : null}
      {words}
    </span>
  );
}

export default function Pools() {
  return (
    <ListPage
      title="Pools"
      noun="pools"
      path="/api/v1/pools"
      columns={COLUMNS}
      idOf={(row) => row.name}
      linkOf={(row) => addressOf(row.name)}
      nameOf={(row) => `Pool ${row.name}`}
      every={2_000}
      hint="A pool limits what all processes share: browsers, requests a second, a provider's tokens."
      actions={<SetPool label="New pool…" />}
    />
  );
}
