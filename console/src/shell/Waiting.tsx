import type { ComponentType } from "react";
import { useCaller } from "@/api/caller";
import { useList } from "@/api/queries";

const MOST = 20;

/** By page: how many things on it wait for somebody. */
export const WAITING: Readonly<Record<string, ComponentType>> = {
  "/inbox": () => {
    const caller = useCaller();
    const isNameless = caller !== undefined && !caller.verified && !caller.name;
    const asks = isNameless ? {} : { asks: ["me" as const, "team" as const, "anyone" as const] };
    return <Count lists={[useList("/api/v1/gates", { query: { ...asks, order: "due", limit: MOST } })]} />;
  },
  "/dead-letters": () => <Count lists={[useList("/api/v1/dead-letters", { query: { limit: MOST } })]} />,
  "/doubts": () => (
    <Count
      lists={[
        useList("/api/v1/doubts", { query: { limit: MOST } }),
        useList("/api/v1/effects", { query: { state: "in_doubt", limit: MOST } }),
      ]}
    />
  ),
};

interface List {
  rows: readonly unknown[];
  hasMore: boolean;
}

/** `7`, or `20+` where there are more than are worth counting. Nothing for none. */
function Count({ lists }: { lists: readonly List[] }) {
  const count = lists.reduce((sum, each) => sum + each.rows.length, 0);
  if (count === 0) return null;
  const words = `${count}${lists.some((each) => each.hasMore) ? "+" : ""}`;
  return (
    <span className="waiting num">
      {words}
      <span className="unseen"> waiting</span>
    </span>
  );
}
