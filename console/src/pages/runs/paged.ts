/**
 * A very long list, newest first: pages stay as they came; the first, and those in view, are read again. New rows wait until
 * they are asked for, so nothing moves under the pointer.
 */
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { send } from "@/api/client";
import { asProblem } from "@/api/problem";
import type { Query, Row } from "@/api/queries";
import { freshOf, joined } from "@/pages/runs/merge";

const PATH = "/api/v1/runs";
export const PAGE = 200;

type Run = Row<typeof PATH>;
interface Page {
  rows: Run[];
  cursor: string | null;
}

export function useRuns(query: Query<typeof PATH>, every: number) {
  const about = JSON.stringify(query);
  const [state, setState] = useState<{
    about: string;
    cursors: (string | null)[];
    first: string | null;
    round: number;
  }>({
    about,
    cursors: [null],
    first: null,
    round: 0,
  });
  const isOther = state.about !== about;
  const now = isOther ? { about, cursors: [null], first: null, round: state.round } : state;
  const kept = useRef<{ key: string; pages: Map<number, Page>; top: Run[] }>({ key: "", pages: new Map(), top: [] });
  const key = `${about} ${now.round}`;
  if (kept.current.key !== key) kept.current = { key, pages: new Map(), top: [] };
  const [inView, setInView] = useState<readonly [number, number]>([0, 0]);
  const wanted = useMemo(() => {
    const all = new Set([0, now.cursors.length - 1]);
    for (let page = inView[0]; page <= Math.min(inView[1], now.cursors.length - 1); page += 1) all.add(page);
    return [...all].sort((one, other) => one - other);
  }, [now.cursors.length, inView]);
  const found = useQueries({
    queries: wanted.map((page) => ({
      queryKey: [PATH, {}, { ...query, page: now.cursors[page] ?? null, round: now.round }],
      queryFn: async ({ signal }: { signal: AbortSignal }) => {
        const cursor = now.cursors[page];
        const asked = { ...query, limit: PAGE, ...(cursor ? { cursor } : {}) };
        return (await send("GET", PATH, { params: { query: asked }, signal })).data as Page;
      },
      refetchInterval: every,
      staleTime: every,
    })),
  });
  const client = useQueryClient();
  found.forEach((each, index) => {
    const page = wanted[index] ?? 0;
    if (each.data) kept.current.pages.set(page, each.data);
  });
  const head = kept.current.pages.get(0);
  if (head) kept.current.top = joined(kept.current.top, head.rows, head.cursor === null);
  const version = found.map((each) => each.dataUpdatedAt).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says when the kept pages changed
  const rows = useMemo(() => {
    const all = [...kept.current.top];
    const last = all.at(-1)?.run_id;
    for (let page = 1; page < now.cursors.length; page += 1) {
      for (const run of kept.current.pages.get(page)?.rows ?? [])
        if (last === undefined || run.run_id < last) all.push(run);
    }
    return all;
  }, [version, now.cursors.length, key]);

  const top = rows[0]?.run_id ?? null;
  useEffect(() => {
    if (isOther) setState({ about, cursors: [null], first: top, round: state.round });
    else if (state.first === null && top !== null) setState({ ...state, first: top });
  }, [isOther, about, top, state]);
  const fresh = isOther ? 0 : freshOf(rows, now.first);
  const end = kept.current.pages.get(now.cursors.length - 1);
  const failed = found.find((each) => each.error);
  const more = useCallback(() => {
    const next = end?.cursor;
    if (!next) return;
    setState((before) =>
      before.about !== about || before.cursors.includes(next)
        ? before
        : { ...before, cursors: [...before.cursors, next] },
    );
  }, [end, about]);
  const see = useCallback((first: number, last: number) => {
    const next = [Math.floor(first / PAGE), Math.floor(last / PAGE)] as const;
    setInView((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
  }, []);
  return {
    rows: fresh > 0 ? rows.slice(fresh) : rows,
    fresh,
    /** True if there are more new ones than were counted. */
    isMoreFresh: fresh >= PAGE,
    /** Let the new ones in, and read from the newest on. */
    show: () => {
      setState({ about, cursors: [null], first: null, round: now.round + 1 });
      window.scrollTo({ top: 0 });
    },
    more,
    hasMore: end === undefined ? now.cursors.length > 1 : end.cursor !== null,
    see,
    isLoading: head === undefined && !failed,
    isFetching: found.some((each) => each.isFetching),
    problem: failed ? asProblem(failed.error) : null,
    again: () => void client.refetchQueries({ queryKey: [PATH] }),
  };
}
