import { Link, useParams } from "react-router";
import type { Schemas } from "@/api/client";
import { useRow } from "@/api/queries";
import { Verdict } from "@/pages/evals/Evals";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
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
