import { Link, useParams } from "react-router";
import type { Schemas } from "@/api/client";
import { type Row, useList, useRow } from "@/api/queries";
import { Verdict } from "@/pages/evals/Evals";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
import { Meter } from "@/parts/Meter";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";
import "./Evaluation.css";

type Scenario = Schemas["ScenarioRow"];

const COLUMNS: readonly Column<Scenario>[] = [
  {
    name: "passed",
    title: "Result",
    width: "90px",
    cell: (row) => (row.passed ? <Status status="completed" words="passed" /> : <Status status="failed" />),
  },
  {
    name: "scenario",
    title: "Scenario",
    width: "minmax(0, 1fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.scenario} />
      </strong>
    ),
  },
  {
    name: "misses",
    title: "Not met",
    width: "minmax(0, 2.4fr)",
    narrow: "main",
    cell: (row) => (
      <span className="misses">
        {row.misses.map((each) => (
          <ForeignText key={each} text={each} />
        ))}
      </span>
    ),
  },
  { name: "kind", title: "Run", width: "76px", cell: (row) => (row.replayed ? "replayed" : "live") },
  { name: "cost", title: "Cost", width: "110px", isNumber: true, cell: (row) => <Money usd={row.cost_usd} /> },
];

type Version = Row<"/api/v1/evals/versions">;

const VERSIONS: readonly Column<Version>[] = [
  { name: "version", title: "Version", width: "76px", narrow: "main", cell: (row) => row.version },
  {
    name: "rate",
    title: "Passed",
    width: "minmax(0, 2fr)",
    cell: (row) => (
      <Meter
        label={`${row.passed} of ${row.scenarios} passed`}
        parts={[{ share: row.pass_rate, tone: row.met ? "ok" : "bad" }]}
      />
    ),
  },
  {
    name: "passed",
    title: "",
    width: "110px",
    isNumber: true,
    cell: (row) => (
      <>
        {row.passed} <span className="faint">of {row.scenarios}</span>
      </>
    ),
  },
  {
    name: "change",
    title: "Change",
    width: "90px",
    isNumber: true,
    cell: (row) => (row.change === null ? "–" : changeWords(row.change)),
  },
  {
    name: "evaluations",
    title: "Results",
    width: "76px",
    isNumber: true,
    narrow: "none",
    cell: (row) => row.evaluations,
  },
  { name: "at", title: "Saved", width: "104px", cell: (row) => <Time at={row.at} /> },
];

/** A change of a share, in percentage points. */
function changeWords(change: number): string {
  return `${change > 0 ? "+" : change < 0 ? "−" : "±"}${Math.round(Math.abs(change) * 1000) / 10} pp`;
}

/** The results of the same suite with each version of the workflow. */
function Versions({ of }: { of: Schemas["EvaluationWhole"] }) {
  const query = { tenant: of.tenant, workflow: of.workflow, suite: of.suite };
  const { rows } = useList("/api/v1/evals/versions", { query });
  return rows.length < 2 ? null : (
    <Table
      label="Newest result by version"
      columns={VERSIONS}
      rows={rows}
      idOf={(each) => each.evaluation_id}
      linkOf={(each) => `/evals/${each.evaluation_id}`}
      nameOf={(each) => `Evaluation of version ${each.version}`}
    />
  );
}

export default function Evaluation() {
  const { evaluation = "" } = useParams();
  const { row, isLoading, problem, again } = useRow("/api/v1/evals/{evaluation}", { path: { evaluation } });
  return (
    <Page
      title={row?.suite ?? "Evaluation"}
      above={<Link to="/evals">Evaluations</Link>}
      facts={row ? <Verdict met={row.met} /> : null}
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the evaluation">
        {row ? (
          <div className="grid">
            <section className="card">
              <Facts
                facts={[
                  [
                    "Passed",
                    `${row.passed} of ${row.scenarios}; at least ${Math.round(row.min_passed * 100)} % must pass`,
                  ],
                  [
                    "Workflow",
                    <Link key="w" to={`/workflows/${encodeURIComponent(row.workflow)}`}>
                      {row.workflow}
                    </Link>,
                  ],
                  ["Version", row.version],
                  ["Cost of its live runs", <Money key="m" usd={row.cost_usd} />],
                  ["Saved", <Time key="t" at={row.at} kind="exact" />],
                  ["Saved by", row.by ?? row.by_os_user ?? row.by_client],
                ]}
              />
            </section>
            <Versions of={row} />
            <Table
              label="Scenarios"
              columns={COLUMNS}
              rows={row.results}
              idOf={(each) => `${each.scenario} ${each.run_id}`}
              linkOf={(each) => `/runs/${each.run_id}`}
              nameOf={(each) => `Run of scenario ${each.scenario}`}
            />
          </div>
        ) : null}
      </State>
    </Page>
  );
}
