import { useMemo } from "react";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { useList, useRow } from "@/api/queries";
import { useEverything } from "@/pages/run/everything";
import type { TabProps } from "@/pages/run/tabs";
import { dollars, nanos, places, share, sum } from "@/parts/amount";
import { BurnDown, type Spending } from "@/parts/BurnDown";
import { Money } from "@/parts/Money";
import { millis } from "@/parts/moment";
import { State } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Operation = Schemas["OperationRow"];
type Doubt = Schemas["DoubtedCallRow"];

interface Part {
  name: string;
  usd: string;
  count: number;
  tokens: number;
}

/** What the run has spent: over time, by node, by model, and what is in doubt. */
export default function Costs({ run }: TabProps) {
  const path = { run: run.run_id };
  const nodes = useList("/api/v1/runs/{run}/costs", { path });
  const budget = useRow("/api/v1/runs/{run}/budget", { path });
  const operations = useEverything(useList("/api/v1/runs/{run}/operations", { path, query: { limit: 1_000 } }));
  const counts = `${operations.rows.length} ${operations.asOf}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows are a new array each time; the counts say when they changed
  const paid = useMemo(() => operations.rows.filter((row) => nanos(row.cost_usd) !== 0n), [counts]);
  const models = useMemo(() => partsOf(paid), [paid]);
  const spending = useMemo(() => spendingOf(paid), [paid]);
  const again = () => {
    for (const each of [nodes, budget, operations]) each.again();
  };
  const ofNodes: Part[] = nodes.rows
    .filter((row) => nanos(row.cost_usd) !== 0n)
    .map((row) => ({ name: row.node, usd: row.cost_usd, count: row.visits, tokens: 0 }));
  return (
    <State
      isLoading={nodes.isLoading || operations.isLoading}
      problem={nodes.problem ?? budget.problem ?? operations.problem}
      again={again}
      isEmpty={paid.length === 0 && ofNodes.length === 0 && run.limit_usd === null && !budget.row?.in_doubt.length}
      noun="costs"
      hint="This run has not paid for anything."
    >
      <div className="grid">
        <section className="card" aria-label="Burn-down">
          <h2>Burn-down</h2>
          <BurnDown
            points={spending}
            limit={run.limit_usd}
            start={millis(run.started_at)}
            end={millis(run.ended_at ?? run.updated_at)}
          />
        </section>
        <div className="costs-parts">
          <Parts title="By node" noun="visits" parts={ofNodes} />
          <Parts title="By model and tool" noun="calls" parts={models} />
        </div>
        {budget.row && budget.row.in_doubt.length > 0 ? <Doubts rows={budget.row.in_doubt} /> : null}
      </div>
    </State>
  );
}

function partsOf(rows: readonly Operation[]): Part[] {
  const found = new Map<string, Part>();
  for (const row of rows) {
    const part = found.get(row.name) ?? { name: row.name, usd: "0.00", count: 0, tokens: 0 };
    found.set(row.name, {
      name: row.name,
      usd: dollars(nanos(part.usd) + nanos(row.cost_usd)),
      count: part.count + row.tries,
      tokens: part.tokens + row.input_tokens + row.output_tokens,
    });
  }
  return [...found.values()].sort((one, other) => (nanos(one.usd) < nanos(other.usd) ? 1 : -1));
}

/** What had been spent at each time, in the order of the ends of calls. */
function spendingOf(rows: readonly Operation[]): Spending[] {
  const ended = rows.map((row) => ({ at: millis(row.ended_at ?? row.began_at), usd: row.cost_usd }));
  ended.sort((one, other) => one.at - other.at);
  let total = 0n;
  return ended.map((each) => {
    total += nanos(each.usd);
    return { at: each.at, usd: dollars(total) };
  });
}

function Parts({ title, noun, parts }: { title: string; noun: string; parts: readonly Part[] }) {
  if (parts.length === 0) return null;
  const total = sum(parts.map((part) => part.usd));
  const widest = places([...parts.map((part) => part.usd), total]);
  return (
    <section className="card" aria-label={title}>
      <h2>{title}</h2>
      <table className="costs-table">
        <tbody>
          {parts.map((part) => (
            <tr key={part.name}>
              <th scope="row">
                <code>{part.name}</code>
              </th>
              <td className="faint num">
                {part.count.toLocaleString("en")} {part.count === 1 ? noun.slice(0, -1) : noun}
                {part.tokens > 0 ? `, ${part.tokens.toLocaleString("en")} tokens` : ""}
              </td>
              <td className="costs-bar">
                <span className="bar" aria-hidden="true">
                  <i className="run-money-spent" style={{ width: `${share(part.usd, total) * 100}%` }} />
                </span>
              </td>
              <td className="num">
                <Money usd={part.usd} places={widest} />
              </td>
            </tr>
          ))}
        </tbody>
        {parts.length > 1 ? (
          <tfoot>
            <tr>
              <th scope="row">Sum</th>
              <td />
              <td />
              <td className="num">
                <Money usd={total} places={widest} />
              </td>
            </tr>
          </tfoot>
        ) : null}
      </table>
    </section>
  );
}

const DOUBTS: Column<Doubt>[] = [
  {
    name: "model",
    title: "Model",
    width: "minmax(120px, 1fr)",
    narrow: "main",
    cell: (row) => <code>{row.model}</code>,
  },
  { name: "step", title: "Step", width: "minmax(80px, 1fr)", cell: (row) => <code className="faint">{row.step}</code> },
  { name: "at", title: "Sent", width: "110px", cell: (row) => <Time at={row.at} /> },
  {
    name: "hold",
    title: "At most",
    width: "120px",
    isNumber: true,
    cell: (row) => <Money usd={row.hold_usd} />,
  },
];

function Doubts({ rows }: { rows: readonly Doubt[] }) {
  return (
    <section aria-label="Calls of unknown cost">
      <h2>
        Calls of unknown cost{" "}
        <Link className="costs-settle" to="/doubts">
          settle them
        </Link>
      </h2>
      <Table label="Calls of unknown cost" columns={DOUBTS} rows={rows} idOf={(row) => row.call} />
    </section>
  );
}
