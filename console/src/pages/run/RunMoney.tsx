import type { ReactNode } from "react";
import { Link } from "react-router";
import { useRow } from "@/api/queries";
import type { TabProps } from "@/pages/run/tabs";
import { nanos, share } from "@/parts/amount";
import { Money } from "@/parts/Money";

/** Spent, held, in doubt and limit, side by side, with the other limits of the run. */
export function RunMoney({ run }: TabProps) {
  const budget = useRow("/api/v1/runs/{run}/budget", { path: { run: run.run_id } }).row;
  const spent = budget?.settled_usd ?? run.settled_usd;
  const doubt = budget?.in_doubt_usd ?? run.in_doubt_usd;
  const held = budget?.held_usd;
  const limit = run.limit_usd;
  const tokens = run.limits.find((each) => each.limit === "tokens");
  return (
    <section className="run-money card" aria-label="Money">
      <Cell name="Spent" usd={spent}>
        {limit === null ? (
          "no limit"
        ) : (
          <>
            of <Money usd={limit} />
          </>
        )}
      </Cell>
      <Cell name="Held" usd={held} tone="wait">
        for calls under way
      </Cell>
      <Cell name="In doubt" usd={doubt} tone="doubt">
        {budget && budget.in_doubt.length > 0 ? (
          <Link to="?tab=costs">
            {budget.in_doubt.length} {budget.in_doubt.length === 1 ? "call" : "calls"} of unknown cost
          </Link>
        ) : (
          "no call of unknown cost"
        )}
      </Cell>
      {limit === null ? null : (
        <Cell name="Left" usd={budget?.available_usd}>
          <span className="bar run-money-bar" role="img" aria-label="Spent, held and in doubt, of the limit">
            <i className="run-money-spent" style={{ width: `${share(spent, limit) * 100}%` }} />
            <i className="run-money-held" style={{ width: `${share(held ?? "0.00", limit) * 100}%` }} />
            <i className="run-money-doubt" style={{ width: `${share(doubt, limit) * 100}%` }} />
          </span>
        </Cell>
      )}
      <div>
        <div className="muted">Tokens</div>
        <div className="run-money-value">{run.tokens.toLocaleString("en")}</div>
        <div className="faint">{tokens ? `of ${tokens.most.toLocaleString("en")}` : "in and out"}</div>
      </div>
    </section>
  );
}

function Cell(props: { name: string; usd: string | null | undefined; tone?: "wait" | "doubt"; children: ReactNode }) {
  const isSome = props.usd !== null && props.usd !== undefined && nanos(props.usd) !== 0n;
  return (
    <div data-amount={props.name}>
      <div className="muted">{props.name}</div>
      <div className="run-money-value" data-tone={isSome ? props.tone : undefined}>
        <Money usd={props.usd} none="…" />
      </div>
      <div className="faint">{props.children}</div>
    </div>
  );
}
