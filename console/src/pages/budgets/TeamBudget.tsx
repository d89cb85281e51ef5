import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import type { Schemas } from "@/api/client";
import { useCommand, useRow } from "@/api/queries";
import { Balance } from "@/pages/budgets/Balance";
import { SetTeamBudget } from "@/pages/budgets/SetTeamBudget";
import { ConfirmAction } from "@/parts/Action";
import { places } from "@/parts/amount";
import { ForeignText } from "@/parts/ForeignText";
import { Meter } from "@/parts/Meter";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";
import "./Budgets.css";

type Whole = Schemas["TeamBudgetWhole"];
type AgentMoney = Schemas["AgentMoneyRow"] & { name: string };
type AgentTokens = Schemas["AgentTokensRow"] & { name: string };

export default function TeamBudget() {
  const { name = "" } = useParams();
  const [address] = useSearchParams();
  const tenant = address.get("tenant");
  const given = { path: { name }, query: tenant ? { tenant } : {} };
  const { row, isLoading, problem, again } = useRow("/api/v1/team-budgets/{name}", given, { every: 2_000 });
  return (
    <Page
      title={name}
      above={<Link to="/budgets?of=agents">Budgets</Link>}
      actions={row ? <Actions row={row} /> : null}
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the team budget">
        {row ? <Details row={row} /> : null}
      </State>
    </Page>
  );
}

function Actions({ row }: { row: Whole }) {
  const remove = useCommand("/api/v1/team-budgets/{name}", { method: "delete", touches: ["/api/v1/team-budgets"] });
  const navigate = useNavigate();
  return (
    <>
      <SetTeamBudget label="Change…" row={row} />
      <ConfirmAction
        label="Remove…"
        needs="admin"
        look="danger"
        title={`Remove the limits of ${row.name}?`}
        confirm="Remove the limits"
        command={remove}
        run={async () => {
          const answer = await remove.run({ path: { name: row.name }, query: { tenant: row.tenant } });
          if (answer !== undefined) await navigate("/budgets?of=agents");
          return answer;
        }}
      >
        Calls of its agents are no longer limited by it.
        {row.money ? (
          <>
            {" "}
            The <Money usd={row.money.used_usd} /> that they have used stays recorded.
          </>
        ) : null}
      </ConfirmAction>
    </>
  );
}

function Details({ row }: { row: Whole }) {
  const { money, tokens } = row;
  return (
    <div className="grid">
      {money ? (
        <>
          <section className="card grid" aria-label="Dollars">
            <Balance
              limit={money.total_usd}
              settled={money.used_usd}
              held={money.held_usd}
              inDoubt={money.in_doubt_usd}
              left={money.remaining_usd}
            />
          </section>
          <Table
            label="Agents, in dollars"
            columns={moneyColumns(named(money.agents))}
            rows={named(money.agents)}
            idOf={(each) => each.name}
          />
        </>
      ) : null}
      {tokens ? (
        <Table label="Agents, in tokens" columns={TOKENS} rows={named(tokens.agents)} idOf={(each) => each.name} />
      ) : null}
    </div>
  );
}

function named<T>(agents: Record<string, T>): (T & { name: string })[] {
  return Object.entries(agents).map(([name, each]) => ({ ...each, name }));
}

function agent<T extends { name: string }>(): Column<T> {
  return {
    name: "agent",
    title: "Agent",
    width: "minmax(0, 1.2fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.name} />
      </strong>
    ),
  };
}

function shared<
  T extends { utilization: number; priority: number; idle_since: string | null },
>(): readonly Column<T>[] {
  return [
    {
      name: "use",
      title: "Used of it",
      width: "minmax(0, 1fr)",
      narrow: "none",
      cell: (row) => (
        <Meter
          parts={[{ share: row.utilization, tone: "text" }]}
          label={`${Math.round(row.utilization * 100)} % used, held or in doubt`}
        />
      ),
    },
    { name: "priority", title: "Priority", width: "70px", isNumber: true, narrow: "none", cell: (row) => row.priority },
    { name: "idle", title: "Last call", width: "104px", cell: (row) => <Time at={row.idle_since} /> },
  ];
}

function moneyColumns(rows: readonly AgentMoney[]): readonly Column<AgentMoney>[] {
  const amounts = ["allocated_usd", "used_usd", "held_usd", "in_doubt_usd", "remaining_usd"] as const;
  const titles = ["Allotted", "Spent", "Held", "In doubt", "Left"];
  return [
    agent(),
    ...amounts.map((name, index): Column<AgentMoney> => {
      const widest = places(rows.map((row) => row[name]));
      return {
        name,
        title: titles[index],
        width: "minmax(84px, 0.8fr)",
        isNumber: true,
        cell: (row) => <Money usd={row[name]} places={widest} />,
      };
    }),
    ...shared<AgentMoney>(),
  ];
}

const TOKENS: readonly Column<AgentTokens>[] = [
  agent(),
  ...(["allocated_tokens", "used_tokens", "held_tokens", "in_doubt_tokens", "remaining_tokens"] as const).map(
    (name, index): Column<AgentTokens> => ({
      name,
      title: ["Allotted", "Used", "Held", "In doubt", "Left"][index],
      width: "minmax(84px, 0.8fr)",
      isNumber: true,
      cell: (row) => row[name].toLocaleString("en-US"),
    }),
  ),
  ...shared<AgentTokens>(),
];
