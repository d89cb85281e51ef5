import { useEffect, useMemo } from "react";
import { useCaller } from "@/api/caller";
import { type Row, useCommand, useList } from "@/api/queries";
import { LimitsBurnDown } from "@/pages/costs/LimitsBurnDown";
import { ConfirmAction } from "@/parts/Action";
import { places, share } from "@/parts/amount";
import { dayOf, placed, timesBetween, type Unit } from "@/parts/costs";
import { FilterFields } from "@/parts/FilterFields";
import { ForeignText } from "@/parts/ForeignText";
import { type Filter, useFilters } from "@/parts/filters";
import { Meter } from "@/parts/Meter";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { StackedDays } from "@/parts/StackedDays";
import { State } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";

const PATH = "/api/v1/costs/summary";
type Sum = Row<typeof PATH>;
type By = "model" | "node" | "workflow" | "team" | "tenant";

const DAY_MS = 86_400_000;
const EVERY_MS = 30_000;
/** Groups of the chart, beside the others as one. */
const TOP = 5;
/** By the hour only so many days. */
const MOST_DAYS_BY_HOUR = 7;
const USUAL_DAYS = 30;
const ZERO = "0.00";
const OTHERS = "all others";
const RANGES = { "1": "today", "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year" } as const;

const FIELDS: Record<By, readonly ("model" | "workflow" | "node" | "team" | "tenant")[]> = {
  model: ["model"],
  node: ["workflow", "node"],
  workflow: ["workflow"],
  team: ["tenant", "team"],
  tenant: ["tenant"],
};

function nameOf(row: Sum, by: By): string {
  if (row.rest) return OTHERS;
  if (by === "node") return `${row.workflow} / ${row.node}`;
  if (by === "team") return `${row.tenant} / ${row.team || "no team"}`;
  return row[by] ?? "";
}

const DAYS: Filter = {
  name: "days",
  title: "Days",
  choices: Object.entries(RANGES).map(([value, words]) => ({
    value: Number(value) === USUAL_DAYS ? "" : value,
    words,
  })),
};
const EACH: Filter = {
  name: "each",
  title: "Time",
  choices: [
    { value: "", words: "by day" },
    { value: "hour", words: "by hour" },
  ],
};
const BY: Filter = {
  name: "by",
  title: "By",
  choices: [
    { value: "", words: "by model" },
    { value: "node", words: "by node" },
    { value: "workflow", words: "by workflow" },
    { value: "team", words: "by team" },
    { value: "tenant", words: "by tenant" },
  ],
};
const TEAM: Filter = { name: "team", title: "Team" };
const TENANT: Filter = { name: "tenant", title: "Tenant" };

/** What models have cost: the server sums up, this page shows. */
export default function Costs() {
  const isForAll = useCaller()?.tenant === null;
  const filters = useMemo(() => [DAYS, EACH, BY, ...(isForAll ? [TENANT] : []), TEAM], [isForAll]);
  const set = useFilters(filters);
  const { values } = set;
  const by = (Object.keys(FIELDS).find((each) => each === values.by) ?? "model") as By;
  const many = Number(values.days || USUAL_DAYS) || USUAL_DAYS;
  const unit: Unit = values.each === "hour" && many <= MOST_DAYS_BY_HOUR ? "hour" : "day";
  const today = dayOf(Date.now());
  const first = dayOf(Date.parse(today) - (many - 1) * DAY_MS);
  const { tenant, team } = values;
  const about = { first_day: first, last_day: today, ...(tenant ? { tenant } : {}), ...(team ? { team } : {}) };
  const every = { every: EVERY_MS };
  const whole = useList(PATH, { query: { ...about, by: ["total"] } }, every);
  const sums = useList(PATH, { query: { ...about, by: [...FIELDS[by]], order: "cost" } }, every);
  const overTime = useList(PATH, { query: { ...about, by: [unit, ...FIELDS[by]], top: TOP, limit: 1000 } }, every);
  // The chart is of the whole time: at most a year of days, or a week of hours.
  const { hasMore, more } = overTime;
  useEffect(() => {
    if (hasMore) more();
  }, [hasMore, more]);

  const total = whole.rows[0]?.cost_usd ?? ZERO;
  const times = useMemo(() => timesBetween(first, today, unit), [first, today, unit]);
  const known = `${overTime.asOf} ${overTime.rows.length} ${sums.asOf}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows are a new array each time; `known` says when they changed
  const groups = useMemo(() => {
    const names = sums.rows.map((row) => nameOf(row, by));
    const timeOf = (row: Sum) => row[unit];
    return placed(overTime.rows, (row) => nameOf(row, by), timeOf, times, names);
  }, [known, by, unit, times]);
  const lists = [whole, sums, overTime];
  const isLoading = lists.some((list) => list.isLoading);
  const filtered = [tenant ? `tenant “${tenant}”` : "", team ? `team “${team}”` : ""].filter(Boolean).join(" and ");
  return (
    <Page
      title="Costs"
      facts={
        isLoading ? null : (
          <>
            <strong data-total>
              <Money usd={total} />
            </strong>{" "}
            settled from {first} to {today} (UTC)
          </>
        )
      }
      actions={<Count />}
    >
      <FilterFields filters={filters} set={set} />
      {values.each === "hour" && unit === "day" ? (
        <p className="muted">By the hour, choose {MOST_DAYS_BY_HOUR} days or fewer.</p>
      ) : null}
      <State
        isLoading={isLoading}
        problem={whole.problem ?? sums.problem ?? overTime.problem}
        again={() => {
          for (const list of lists) list.again();
        }}
        isEmpty={sums.rows.length === 0}
        noun="costs"
        filter={filtered || undefined}
        clear={set.clear}
        hint={`No call to a model has cost anything ${many === 1 ? "today" : `in these ${many} days`}.`}
      >
        <div className="grid">
          <StackedDays days={times} groups={groups} label={`Costs by ${unit} and ${by}, in dollars`} />
          <LimitsBurnDown tenant={tenant ?? ""} team={team ?? ""} />
          <Table
            label={`Costs by ${by}`}
            columns={columnsOf(by, sums.rows, total)}
            rows={sums.rows}
            idOf={(row) => nameOf(row, by)}
            more={sums.more}
            hasMore={sums.hasMore}
          />
        </div>
      </State>
    </Page>
  );
}

function columnsOf(by: By, rows: readonly Sum[], total: string): readonly Column<Sum>[] {
  const widest = places(rows.map((row) => row.cost_usd));
  return [
    {
      name: "name",
      title: by === "team" ? "Tenant / team" : by.charAt(0).toUpperCase() + by.slice(1),
      width: "minmax(0, 2fr)",
      narrow: "main",
      cell: (row) => (
        <strong>
          <ForeignText text={nameOf(row, by)} />
        </strong>
      ),
    },
    {
      name: "cost",
      title: "Settled",
      width: "150px",
      isNumber: true,
      cell: (row) => <Money usd={row.cost_usd} places={widest} />,
    },
    {
      name: "share",
      title: "Share",
      width: "minmax(0, 1fr)",
      narrow: "none",
      cell: (row) => {
        const part = share(row.cost_usd, total);
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
      cell: (row) => count(row.input_tokens),
    },
    {
      name: "output",
      title: "Tokens returned",
      width: "110px",
      isNumber: true,
      narrow: "none",
      cell: (row) => count(row.output_tokens),
    },
  ];
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function Count() {
  const command = useCommand("/api/v1/costs/rollup", { touches: [PATH, "/api/v1/budgets/burn-down"] });
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
