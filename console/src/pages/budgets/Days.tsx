import { useMemo } from "react";
import { useList } from "@/api/queries";
import { StackedDays } from "@/parts/StackedDays";
import { State } from "@/parts/State";

const SHOWN_DAYS = 30;

/** What a tenant or a team has spent in each of the last days, with what is held and in doubt. */
export function Days({ tenant, team }: { tenant: string; team: string | null }) {
  const query = { tenant, days: SHOWN_DAYS, ...(team ? { team } : {}) };
  const { rows, isLoading, problem, again } = useList("/api/v1/budgets/days", { query }, { every: 10_000 });
  const known = JSON.stringify(rows);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chart is drawn again if an amount changes, not with each answer
  const shown = useMemo(
    () => ({
      days: rows.map((row) => row.day),
      groups: [
        { name: "Spent", tone: "text" as const, amounts: rows.map((row) => row.settled_usd) },
        { name: "Held", tone: "wait" as const, amounts: rows.map((row) => row.held_usd) },
        { name: "In doubt", tone: "doubt" as const, amounts: rows.map((row) => row.in_doubt_usd) },
      ],
    }),
    [known],
  );
  return (
    <State isLoading={isLoading} problem={problem} again={again} noun="days">
      {rows.length > 0 ? (
        <StackedDays {...shown} label={`Spent in each of the last ${SHOWN_DAYS} days, in dollars`} />
      ) : null}
    </State>
  );
}
