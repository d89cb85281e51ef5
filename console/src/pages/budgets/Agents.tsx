import type { Row } from "@/api/queries";
import { SetTeamBudget } from "@/pages/budgets/SetTeamBudget";
import { ForeignText } from "@/parts/ForeignText";
import { List } from "@/parts/ListPage";
import type { Column } from "@/parts/Table";

type TeamBudget = Row<"/api/v1/team-budgets">;

const COLUMNS: readonly Column<TeamBudget>[] = [
  {
    name: "name",
    title: "Team budget",
    width: "minmax(0, 1fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.name} />
      </strong>
    ),
  },
];

export function addressOf(row: TeamBudget): string {
  return `/budgets/${encodeURIComponent(row.name)}?${new URLSearchParams({ tenant: row.tenant })}`;
}

/** Budgets that agents share, once: those with too little borrow from the others. */
export function Agents() {
  return (
    <List
      title="Team budgets"
      noun="team budgets"
      path="/api/v1/team-budgets"
      columns={COLUMNS}
      idOf={(row) => `${row.tenant}/${row.name}`}
      linkOf={addressOf}
      nameOf={(row) => `Team budget ${row.name}`}
      tenantOf={(row) => row.tenant}
      every={10_000}
      about={() => (
        <div className="line budgets-bar">
          <SetTeamBudget label="New team budget…" />
        </div>
      )}
      hint="A team budget is shared by agents. An agent with too little left borrows from the others."
    />
  );
}
