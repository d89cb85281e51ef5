import { type Row, useList } from "@/api/queries";
import { BurnDown } from "@/parts/BurnDown";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { millis } from "@/parts/moment";
import { State } from "@/parts/State";
import "./LimitsBurnDown.css";

type Limit = Row<"/api/v1/budgets/limits">;

const EVERY_MS = 30_000;
const MOST = 4;
const STEP_MS = { day: 3_600_000, month: 86_400_000 } as const;

/** What is left of each limit in dollars over the day or the month, for the tenant and the team that are chosen. */
export function LimitsBurnDown({ tenant, team }: { tenant: string; team: string }) {
  const { rows } = useList("/api/v1/budgets/limits", {}, { every: EVERY_MS });
  const limits = rows.filter(
    (row) => row.limit_usd !== null && (!tenant || row.tenant === tenant) && (!team || row.team === team),
  );
  if (limits.length === 0) return null;
  return (
    <>
      <div className="limits-burn-down">
        {limits.slice(0, MOST).map((row) => (
          <Card key={`${row.tenant}/${row.team}/${row.period}`} limit={row} />
        ))}
      </div>
      {limits.length > MOST ? (
        <p className="muted">
          {limits.length - MOST} more limits are set. Choose a tenant and a team to see how they burn down.
        </p>
      ) : null}
    </>
  );
}

function Card({ limit }: { limit: Limit }) {
  const { tenant, team, period } = limit;
  const query = { tenant, period, ...(team ? { team } : {}) };
  const { rows, isLoading, problem, again, asOf } = useList(
    "/api/v1/budgets/burn-down",
    { query },
    { every: EVERY_MS },
  );
  const last = rows.at(-1);
  const words = `${team ? `${tenant} / ${team}` : tenant}, this ${period}`;
  const now = asOf || Date.now();
  return (
    <section className="card" aria-label={`Burn-down of ${words}`}>
      <h2>
        <ForeignText text={words} />
      </h2>
      <State isLoading={isLoading} problem={problem} again={again} noun="the burn-down">
        {last ? (
          <>
            <p>
              <Money usd={last.left_usd} none="no limit" /> left of <Money usd={last.limit_usd} none="none" />, spent{" "}
              <Money usd={last.total_usd} />
            </p>
            <BurnDown
              points={rows.map((row) => ({
                at: Math.min(now, millis(row.since) + STEP_MS[period]),
                usd: row.total_usd,
              }))}
              limit={last.limit_usd}
              start={millis(rows[0]?.since ?? last.since)}
              end={now}
            />
          </>
        ) : null}
      </State>
    </section>
  );
}
