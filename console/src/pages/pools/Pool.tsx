import { Link, useNavigate, useParams } from "react-router";
import { useCommand, useRow } from "@/api/queries";
import { PoolHolders, PoolWaiters } from "@/pages/pools/PoolSteps";
import { count, countsOf, limitOf, type PoolWhole } from "@/pages/pools/pool";
import { SetPool } from "@/pages/pools/SetPool";
import { ConfirmAction } from "@/parts/Action";
import { ForeignText } from "@/parts/ForeignText";
import { Meter } from "@/parts/Meter";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { type Column, Table } from "@/parts/Table";

const EVERY_MS = 1_000;

export default function Pool() {
  const { name = "" } = useParams();
  const { row, isLoading, problem, again } = useRow("/api/v1/pools/{name}", { path: { name } }, { every: EVERY_MS });
  return (
    <Page
      title={name}
      above={<Link to="/pools">Pools</Link>}
      facts={row ? `${limitOf(row)} · counts ${countsOf(row)}` : null}
      actions={row ? <Actions row={row} /> : null}
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the pool">
        {row ? <Details row={row} /> : null}
      </State>
    </Page>
  );
}

function Actions({ row }: { row: PoolWhole }) {
  const remove = useCommand("/api/v1/pools/{name}", { method: "delete", touches: ["/api/v1/pools", "/api/v1/queue"] });
  const navigate = useNavigate();
  return (
    <>
      <SetPool label="Change the limit…" row={row} />
      <ConfirmAction
        label="Remove…"
        needs="admin"
        look="danger"
        title={`Remove pool ${row.name}?`}
        confirm="Remove the pool"
        command={remove}
        run={async () => {
          const answer = await remove.run({ path: { name: row.name } });
          if (answer !== undefined) await navigate("/pools");
          return answer;
        }}
      >
        {row.counts
          ? "Later model calls are no longer limited by it; those that wait for it now wait until it is set again."
          : "Steps that ask for it wait until it is set again."}{" "}
        {count(row.in_use)} units are in use by {count(row.shares.length)}{" "}
        {row.shares.length === 1 ? "process" : "processes"}; those steps go on.
      </ConfirmAction>
    </>
  );
}

type Share = PoolWhole["shares"][number];
type Estimate = PoolWhole["estimates"][number];

const SHARES: readonly Column<Share>[] = [
  {
    name: "holder",
    title: "Process",
    width: "minmax(160px, 1.4fr)",
    narrow: "main",
    cell: (row) => <ForeignText text={row.holder} />,
  },
  {
    name: "life",
    title: "State",
    width: "110px",
    cell: (row) =>
      row.life === "living" ? <Status status="active" words="alive" /> : <Status status="unknown" words={row.life} />,
  },
  { name: "used", title: "In use", width: "90px", isNumber: true, cell: (row) => count(row.used) },
  { name: "granted", title: "Share", width: "90px", isNumber: true, cell: (row) => count(row.granted) },
  { name: "wanted", title: "Asks for", width: "90px", isNumber: true, cell: (row) => count(row.wanted) },
];

const ESTIMATES: readonly Column<Estimate>[] = [
  {
    name: "workflow",
    title: "Workflow",
    width: "minmax(120px, 1fr)",
    cell: (row) => <ForeignText text={row.workflow} />,
  },
  { name: "node", title: "Node", width: "minmax(120px, 1fr)", narrow: "main", cell: (row) => <code>{row.node}</code> },
  { name: "amount", title: "One step takes about", width: "150px", isNumber: true, cell: (row) => count(row.amount) },
  { name: "samples", title: "Learned from steps", width: "140px", isNumber: true, cell: (row) => count(row.samples) },
];

function Details({ row }: { row: PoolWhole }) {
  const used = row.in_use;
  return (
    <div className="grid">
      <section className="card grid" aria-label="Use">
        {row.kind === "slots" ? (
          <>
            <div>
              <strong>
                {count(used)} of {count(row.limit)}
              </strong>{" "}
              in use, <strong>{count(Math.max(0, row.limit - used))}</strong> free; processes ask for{" "}
              {count(row.wanted)}
            </div>
            <Meter
              label={`${used} of ${row.limit} in use`}
              parts={[{ share: used / row.limit, tone: used >= row.limit ? "bad" : "busy" }]}
            />
          </>
        ) : (
          <div>
            {limitOf(row)}; <strong>{count(used)}</strong> units are in flight, processes ask for {count(row.wanted)}
          </div>
        )}
      </section>
      {row.holders.length > 0 ? (
        <section>
          <h2>Steps that hold it</h2>
          <PoolHolders rows={row.holders} />
        </section>
      ) : null}
      <Waiting row={row} />
      {row.shares.length > 0 ? (
        <section>
          <h2>Shares of processes</h2>
          <Table label="Shares" columns={SHARES} rows={row.shares} idOf={(each) => each.session} />
        </section>
      ) : null}
      {row.estimates.length > 0 ? (
        <section>
          <h2>What steps take</h2>
          <Table
            label="Estimates"
            columns={ESTIMATES}
            rows={row.estimates}
            idOf={(each) => `${each.workflow}/${each.node}`}
          />
        </section>
      ) : null}
    </div>
  );
}

/** Steps that wait before they start, and model calls of steps under way. */
function Waiting({ row }: { row: PoolWhole }) {
  const steps = row.waiting.filter((each) => each.model === null);
  const calls = row.waiting.filter((each) => each.model !== null);
  if (row.waiting_steps === 0 && row.waiting_calls === 0) return <p className="muted">Nothing waits for it.</p>;
  return (
    <>
      {row.waiting_steps > 0 ? (
        <section>
          <h2>
            {count(row.waiting_steps)} {row.waiting_steps === 1 ? "step waits" : "steps wait"} for it, longest first
          </h2>
          <PoolWaiters label="Steps that wait for it" rows={steps} />
        </section>
      ) : null}
      {row.waiting_calls > 0 ? (
        <section>
          <h2>
            {count(row.waiting_calls)} {row.waiting_calls === 1 ? "model call waits" : "model calls wait"} for it,
            longest first
          </h2>
          <PoolWaiters label="Model calls that wait for it" rows={calls} />
        </section>
      ) : null}
    </>
  );
}
