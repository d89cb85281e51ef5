import { Link, useParams } from "react-router";
import type { Schemas } from "@/api/client";
import { useRow } from "@/api/queries";
import { ComparedData } from "@/pages/compare/ComparedData";
import { differenceOf } from "@/pages/compare/difference";
import { INPUTS, OUTPUTS } from "@/pages/run/EventData";
import { useAddress } from "@/parts/address";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { duration } from "@/parts/moment";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { type Column, Table } from "@/parts/Table";
import { Duration } from "@/parts/Time";
import "./Compare.css";

type Compared = Schemas["ComparisonRow"];
type Pair = Schemas["ComparedOperationRow"];
type Operation = Schemas["OperationRow"];

const COLUMNS: readonly Column<Pair>[] = [
  { name: "first", title: "First", width: "minmax(0, 1fr)", narrow: "main", cell: ({ first }) => <Side row={first} /> },
  {
    name: "second",
    title: "Second",
    width: "minmax(0, 1fr)",
    narrow: "main",
    cell: ({ second }) => <Side row={second} />,
  },
  {
    name: "difference",
    title: "Second beside first",
    width: "minmax(0, 0.6fr)",
    narrow: "main",
    cell: (pair) => <Difference pair={pair} />,
  },
];
/** Kinds of operations of which histories keep the input. */
const WITH_INPUT: ReadonlySet<string> = new Set(["model", "tool", "child", "question"]);
const idOf = ({ first, second }: Pair) => `${first?.seq ?? ""}-${second?.seq ?? ""}`;

/** Two runs side by side: how they went, and each operation beside the one of the other run. */
export default function Compare() {
  const { run = "", other = "" } = useParams();
  const { row, isLoading, problem, again } = useRow("/api/v1/runs/{run}/comparison", {
    path: { run },
    query: { other },
  });
  return (
    <Page
      title="Two runs"
      above={
        <span className="faint">
          <Link className="plain" to="/runs">
            Runs
          </Link>{" "}
          /
        </span>
      }
      facts={row ? <span>{row.same_way ? "went the same way" : "went different ways"}</span> : null}
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the comparison">
        {row ? <Content row={row} /> : null}
      </State>
    </Page>
  );
}

function Content({ row }: { row: Compared }) {
  const [chosen, choose] = useAddress("at");
  const pair = row.operations.find((each) => idOf(each) === chosen);
  const alone = row.nodes.filter((each) => each.of !== "both");
  return (
    <div className="grid">
      <section className="card">
        <div className="compare">
          <span />
          <Name title="First run" run={row.run_id} />
          <Name title="Second run" run={row.other_id} />
          <span className="muted">status</span>
          {row.statuses.map((status, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the first and the second run
            <span key={at}>
              <Status status={status} />
            </span>
          ))}
          <span className="muted">cost</span>
          {row.costs_usd.map((usd, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the first and the second run
            <span key={at}>
              <Money usd={usd} />
            </span>
          ))}
          {row.totals.map((each) => (
            <Line
              key={each.total}
              name={each.total.replace(/_ms$/, "").replaceAll("_", " ")}
              first={ofTotal(each.total, each.first)}
              second={ofTotal(each.total, each.second)}
            />
          ))}
          {row.decisions.map((each) => (
            <Line
              key={each.node}
              name={`decided at ${each.node}`}
              first={each.first.join(", ") || "–"}
              second={each.second.join(", ") || "–"}
            />
          ))}
          {alone.map((each, at) => (
            <Line
              // biome-ignore lint/suspicious/noArrayIndexKey: visits in their order; a node may come more than once
              key={at}
              name={`visited ${each.node}`}
              first={each.of === "first" ? "yes" : "no"}
              second={each.of === "second" ? "yes" : "no"}
            />
          ))}
        </div>
      </section>
      <div className="card compare-data">
        <RunData row={row} />
      </div>
      {row.operations.length > 0 ? (
        <Table
          label="Operations side by side"
          columns={COLUMNS}
          rows={row.operations}
          idOf={idOf}
          linkOf={(each) => `?at=${idOf(each)}`}
          nameOf={(each) => `Compare ${nameOf(each)} in both runs`}
        />
      ) : null}
      {pair ? (
        <Dialog isOpen onClose={() => choose("")} title={nameOf(pair)} isWide>
          <Difference pair={pair} />
          {WITH_INPUT.has((pair.first ?? pair.second)?.kind ?? "") ? (
            <ComparedData
              title="Input"
              first={{ run: row.run_id, seq: pair.first?.seq ?? null }}
              second={{ run: row.other_id, seq: pair.second?.seq ?? null }}
              keys={INPUTS}
            />
          ) : null}
          <ComparedData
            title="Output"
            first={{ run: row.run_id, seq: pair.first?.ended_seq ?? null }}
            second={{ run: row.other_id, seq: pair.second?.ended_seq ?? null }}
            keys={OUTPUTS}
          />
        </Dialog>
      ) : null}
    </div>
  );
}

/** What both runs began with, and what they came to. */
function RunData({ row }: { row: Compared }) {
  const first = useRow("/api/v1/runs/{run}", { path: { run: row.run_id } }).row;
  const second = useRow("/api/v1/runs/{run}", { path: { run: row.other_id } }).row;
  if (!first || !second) return <State isLoading noun="the input" />;
  const last = ({ run_id, status, output }: NonNullable<typeof first>) =>
    status === "completed" ? { value: output } : { run: run_id, seq: null };
  return (
    <>
      <ComparedData
        title="Input"
        first={{ run: row.run_id, seq: 1 }}
        second={{ run: row.other_id, seq: 1 }}
        keys={["input"]}
      />
      <ComparedData title="Output" first={last(first)} second={last(second)} keys={["output"]} />
    </>
  );
}

function nameOf({ first, second }: Pair): string {
  return (first ?? second)?.name ?? "";
}

function Difference({ pair: { first, second } }: { pair: Pair }) {
  if (!first || !second) return <span className="faint">only in the {first ? "first" : "second"} run</span>;
  const { status, usd, took, tries } = differenceOf(first, second);
  if (!status && !usd && !took && !tries) return <span className="faint">the same</span>;
  return (
    <span className="line compare-side">
      {status ? <strong>{status}</strong> : null}
      {usd ? <Money usd={usd} sign /> : null}
      {took ? <span>{took}</span> : null}
      {tries ? <span>{tries}</span> : null}
    </span>
  );
}

function ofTotal(total: string, value: number): string {
  return total.endsWith("_ms") ? duration(value) : value.toLocaleString("en");
}

function Name({ title, run }: { title: string; run: string }) {
  return (
    <span>
      <strong>{title}</strong>{" "}
      <Link to={`/runs/${run}`}>
        <code title={run}>{shortRun(run)}</code>
      </Link>
    </span>
  );
}

function Line({ name, first, second }: { name: string; first: string; second: string }) {
  return (
    <>
      <span className="muted">{name}</span>
      <span>
        <ForeignText text={first} />
      </span>
      <span>
        <ForeignText text={second} />
      </span>
    </>
  );
}

function Side({ row }: { row: Operation | null }) {
  if (!row) return <span className="faint">not in this run</span>;
  return (
    <span className="line compare-side">
      <code>
        <ForeignText text={row.name} />
      </code>
      <Status status={row.status} />
      <span className="faint">
        {row.reused ? "reused" : row.ended_at ? <Duration from={row.began_at} to={row.ended_at} /> : null}
      </span>
      {row.kind === "model" || row.kind === "tool" ? <Money usd={row.cost_usd} /> : null}
    </span>
  );
}
