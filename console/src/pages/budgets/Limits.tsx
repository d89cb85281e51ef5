import type { Row } from "@/api/queries";
import { dollars, nanos, share } from "@/parts/amount";
import { ForeignText } from "@/parts/ForeignText";
import { List } from "@/parts/ListPage";
import { Meter } from "@/parts/Meter";
import { Money } from "@/parts/Money";
import type { Column } from "@/parts/Table";

type Limit = Row<"/api/v1/budgets/limits">;

const COLUMNS: readonly Column<Limit>[] = [
  {
    name: "owner",
    title: "Of",
    width: "minmax(0, 1.4fr)",
    narrow: "main",
    cell: (row) => (
      <>
        <strong>
          <ForeignText text={row.team ?? row.tenant} />
        </strong>{" "}
        <span className="faint">
          {row.team ? (
            <>
              team of <ForeignText text={row.tenant} />
            </>
          ) : (
            "tenant"
          )}
        </span>
      </>
    ),
  },
  { name: "period", title: "Each", width: "64px", cell: (row) => row.period },
  { name: "use", title: "Used of it", width: "minmax(0, 1fr)", narrow: "none", cell: (row) => <Use row={row} /> },
  {
    name: "spent",
    title: "Spent",
    width: "minmax(90px, 0.7fr)",
    isNumber: true,
    cell: (row) => (row.max_tokens === null ? <Money usd={row.settled_usd} /> : `${count(row.used_tokens)} tokens`),
  },
  {
    name: "held",
    title: "Held",
    width: "minmax(80px, 0.6fr)",
    isNumber: true,
    narrow: "none",
    cell: (row) => <Money usd={row.held_usd} />,
  },
  {
    name: "doubt",
    title: "In doubt",
    width: "minmax(80px, 0.6fr)",
    isNumber: true,
    narrow: "none",
    cell: (row) => <Money usd={row.in_doubt_usd} />,
  },
  {
    name: "limit",
    title: "Limit",
    width: "minmax(90px, 0.7fr)",
    isNumber: true,
    cell: (row) => (row.max_tokens === null ? <Money usd={row.limit_usd} /> : `${count(row.max_tokens)} tokens`),
  },
];

function count(value: number | null): string {
  return (value ?? 0).toLocaleString("en-US");
}

function Use({ row }: { row: Limit }) {
  if (row.max_tokens !== null) {
    const part = (row.used_tokens ?? 0) / Math.max(1, row.max_tokens);
    return <Meter parts={[{ share: part, tone: "text" }]} label={`${Math.round(part * 100)} % used`} />;
  }
  const { limit_usd: limit, settled_usd: settled, held_usd: held, in_doubt_usd: doubt } = row;
  if (limit === null || settled === null || held === null || doubt === null) return null;
  const used = dollars(nanos(settled) + nanos(held) + nanos(doubt));
  return (
    <Meter
      parts={[
        { share: share(settled, limit), tone: "text" },
        { share: share(held, limit), tone: "wait" },
        { share: share(doubt, limit), tone: "doubt" },
      ]}
      label={`$${used} of $${limit} used`}
    />
  );
}

function addressOf(row: Pick<Limit, "tenant" | "team">): string {
  return `/budgets?${new URLSearchParams({ tenant: row.tenant, ...(row.team ? { team: row.team } : {}) })}`;
}

const idOf = (row: Limit) =>
  `${row.tenant}/${row.team ?? ""}/${row.period}/${row.max_tokens === null ? "usd" : "tokens"}`;

/** The limits of all tenants and teams that the caller sees; a row leads to its owner. */
export function Limits({ tenant, team }: { tenant: string; team: string | null }) {
  return (
    <List
      title="All limits"
      noun="limits"
      path="/api/v1/budgets/limits"
      columns={COLUMNS}
      idOf={idOf}
      linkOf={addressOf}
      nameOf={(row) => `Budget of ${row.team ?? row.tenant}, each ${row.period}`}
      every={10_000}
      hint={`Neither ${team ?? tenant} nor any other has a limit.`}
    />
  );
}
