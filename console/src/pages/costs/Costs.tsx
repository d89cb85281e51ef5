import { useEffect, useMemo } from "react";
import { useSearchParams } from "react-router";
import { useCaller } from "@/api/caller";
import { type Row, useCommand, useList } from "@/api/queries";
import { ConfirmAction } from "@/parts/Action";
import { places, share, sum } from "@/parts/amount";
import { byGroup, dayOf, daysBetween, folded } from "@/parts/costs";
import { FilterFields } from "@/parts/FilterFields";
import { ForeignText } from "@/parts/ForeignText";
import { type Filter, useFilters } from "@/parts/filters";
import { Meter } from "@/parts/Meter";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { StackedDays } from "@/parts/StackedDays";
import { State } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";

type Cost = Row<"/api/v1/costs">;
type By = "model" | "node" | "workflow" | "tenant";

const DAY_MS = 86_400_000;
const MOST_GROUPS = 6;
const RANGES = { "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year" } as const;

const OF: Record<By, (row: Cost) => string> = {
  model: (row) => row.model,
  node: (row) => `${row.workflow} / ${row.node}`,
  workflow: (row) => row.workflow,
  tenant: (row) => row.tenant,
};

const FILTERS: readonly Filter[] = [
  {
    name: "days",
    title: "Days",
    choices: Object.entries(RANGES).map(([value, words]) => ({ value: value === "30" ? "" : value, words })),
  },
  {
    name: "by",
    title: "By",
    choices: [
      { value: "", words: "by model" },
      { value: "node", words: "by node" },
      { value: "workflow", words: "by workflow" },
      { value: "tenant", words: "by tenant" },
    ],
  },
];
const TENANT: Filter = { name: "tenant", title: "Tenant" };

interface Line {
  name: string;
  total: string;
  calls: number;
  input: number;
  output: number;
}

export default function Costs() {
  const [address] = useSearchParams();
  const isForAll = useCaller()?.tenant === null;
  const filters = useMemo(() => (isForAll ? [...FILTERS, TENANT] : FILTERS), [isForAll]);
  const set = useFilters(filters);
  const by = (Object.keys(OF).find((each) => each === set.values.by) ?? "model") as By;
  const many = Number(set.values.days || "30") || 30;
  const today = dayOf(Date.now());
  const first = dayOf(Date.parse(today) - (many - 1) * DAY_MS);
  const tenant = address.get("tenant");
  const query = { first_day: first, last_day: today, limit: 1000, ...(tenant ? { tenant } : {}) };
  const list = useList("/api/v1/costs", { query }, { every: 30_000 });
  const { rows, more, hasMore } = list;
  // Sums are of everything: the page reads on until the end.
  useEffect(() => {
    if (hasMore) more();
  }, [hasMore, more]);

  const days = useMemo(() => daysBetween(first, today), [first, today]);
  const groups = useMemo(() => byGroup(rows, OF[by], days), [rows, by, days]);
  const shown = useMemo(() => folded(groups, MOST_GROUPS), [groups]);
  const lines = useMemo(() => linesOf(rows, OF[by], groups), [rows, by, groups]);
  const total = sum(groups.map((group) => group.total));
  return (
    <Page
      title="Costs"
      facts={
        list.isLoading ? null : (
          <>
            <strong>
              <Money usd={total} />
            </strong>{" "}
            settled from {first} to {today} (UTC){hasMore ? ", still adding up" : ""}
          </>
        )
      }
      actions={<Count />}
    >
      <FilterFields filters={filters} set={set} />
      <State
        isLoading={list.isLoading}
        problem={list.problem}
        again={list.again}
        isEmpty={rows.length === 0}
        noun="costs"
        filter={tenant ? `tenant “${tenant}” in these ${many} days` : undefined}
        clear={set.clear}
        hint={`No call to a model has cost anything in these ${many} days.`}
      >
        <div className="grid">
          <StackedDays days={days} groups={shown} label={`Costs by day and ${by}, in dollars`} />
          <Table label={`Costs by ${by}`} columns={columnsOf(by, lines, total)} rows={lines} idOf={(row) => row.name} />
        </div>
      </State>
    </Page>
  );
}

function linesOf(
  rows: readonly Cost[],
  nameOf: (row: Cost) => string,
  groups: readonly { name: string; total: string }[],
): Line[] {
  const counts = new Map<string, { calls: number; input: number; output: number }>();
  for (const row of rows) {
    const name = nameOf(row);
    const held = counts.get(name) ?? { calls: 0, input: 0, output: 0 };
    held.calls += row.calls;
    held.input += row.input_tokens;
    held.output += row.output_tokens;
    counts.set(name, held);
  }
  return groups.map(({ name, total }) => ({ name, total, ...(counts.get(name) ?? { calls: 0, input: 0, output: 0 }) }));
}

function columnsOf(by: By, lines: readonly Line[], total: string): readonly Column<Line>[] {
  const widest = places(lines.map((line) => line.total));
  return [
    {
      name: "name",
      title: by.charAt(0).toUpperCase() + by.slice(1),
      width: "minmax(0, 2fr)",
      narrow: "main",
      cell: (row) => (
        <strong>
          <ForeignText text={row.name} />
        </strong>
      ),
    },
    {
      name: "cost",
      title: "Settled",
      width: "150px",
      isNumber: true,
      cell: (row) => <Money usd={row.total} places={widest} />,
    },
    {
      name: "share",
      title: "Share",
      width: "minmax(0, 1fr)",
      narrow: "none",
      cell: (row) => {
        const part = share(row.total, total);
        return <Meter parts={[{ share: part, tone: "text" }]} label={`${(part * 100).toFixed(1)} %`} />;
      },
    },
    { name: "calls", title: "Calls", width: "90px", isNumber: true, narrow: "none", cell: (row) => count(row.calls) },
    {
      name: "input",
      title: "Tokens sent",
      width: "110px",
      isNumber: true,
      narrow: "none",
      cell: (row) => count(row.input),
    },
    {
      name: "output",
      title: "Tokens returned",
      width: "110px",
      isNumber: true,
      narrow: "none",
      cell: (row) => count(row.output),
    },
  ];
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function Count() {
  const command = useCommand("/api/v1/costs/rollup", { touches: ["/api/v1/costs"] });
  return (
    <ConfirmAction
      label="Count again…"
      needs="operator"
      title="Count costs again?"
      confirm="Count them"
      command={command}
      run={() => command.run({})}
    >
      Costs are counted from the histories of runs, for up to 20 seconds. Nothing is spent.
      {command.answer && !command.answer.up_to_date ? " The last count did not reach the end." : null}
    </ConfirmAction>
  );
}
