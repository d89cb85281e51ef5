/**
 * A very long list, newest first. The first page and those in view are read again after events; of pages far from the view
 * only the ids are kept. New rows wait until they are asked for, so nothing moves under the pointer.
 */
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { send } from "@/api/client";
import { asProblem } from "@/api/problem";
import type { Query, Row } from "@/api/queries";
import { type Entry, freshOf, joined, letGo, pageAt, together } from "@/pages/runs/merge";

const PATH = "/api/v1/runs";
/** Rows of the first page, which is shown soonest and read most often. */
const FIRST = 200;
/** Rows of the pages after it. */
const PAGE = 500;
/** Pages that are kept on each side of the view. */
const BESIDE = 4;
/** Rows at the top by which new ones are told from those that were shown. */
const REMEMBERED = 50;

type Run = Row<typeof PATH>;
interface Page {
  rows: Run[];
  cursor: string | null;
}
interface Kept {
  /** The filter and its round. */
  key: string;
  /** The first page as it is shown. */
  top: Run[];
  /** The others, by number. */
  pages: Map<number, readonly Entry[]>;
  /** Cursors at which pages end; null at the end of the list. */
  ends: Map<number, string | null>;
}

function nothingKept(key: string): Kept {
  return { key, top: [], pages: new Map(), ends: new Map() };
}

/** True for the query of a page that is far from the pages in view. */
function isFar(asked: unknown, inView: readonly [number, number]): boolean {
  const page = (asked as { page?: unknown } | undefined)?.page;
  return typeof page === "number" && page > 0 && (page < inView[0] - BESIDE || page > inView[1] + BESIDE);
}

export function useRuns(query: Query<typeof PATH>) {
  const about = JSON.stringify(query);
  const [state, setState] = useState<{
    about: string;
    cursors: (string | null)[];
    before: readonly string[];
    round: number;
  }>({
    about,
    cursors: [null],
    before: [],
    round: 0,
  });
  const isOther = state.about !== about;
  const now = isOther ? { about, cursors: [null], before: [], round: state.round } : state;
  const kept = useRef<Kept>(nothingKept(""));
  const key = `${about} ${now.round}`;
  if (kept.current.key !== key) kept.current = nothingKept(key);
  const [inView, setInView] = useState<readonly [number, number]>([0, 0]);
  const wanted = useMemo(() => {
    const all = new Set([0, now.cursors.length - 1]);
    for (let page = inView[0]; page <= Math.min(inView[1], now.cursors.length - 1); page += 1) all.add(page);
    return [...all].sort((one, other) => one - other);
  }, [now.cursors.length, inView]);
  const found = useQueries({
    queries: wanted.map((page) => ({
      // The number of the page, not its cursor, which names a run: events of any run concern it.
      queryKey: [PATH, {}, { ...query, page, round: now.round }],
      queryFn: async ({ signal }: { signal: AbortSignal }) => {
        const cursor = now.cursors[page];
        const asked = { ...query, limit: page === 0 ? FIRST : PAGE, ...(cursor ? { cursor } : {}) };
        return (await send("GET", PATH, { params: { query: asked }, signal })).data as Page;
      },
    })),
  });
  found.forEach((each, index) => {
    const page = wanted[index] ?? 0;
    if (!each.data) return;
    kept.current.ends.set(page, each.data.cursor);
    if (page > 0) kept.current.pages.set(page, each.data.rows);
    else kept.current.top = joined(kept.current.top, each.data.rows, each.data.cursor === null);
  });
  const client = useQueryClient();
  useEffect(() => {
    // Those near the view stay, for who comes back to the list.
    client.removeQueries({
      type: "inactive",
      predicate: ({ queryKey: [path, , asked] }) => path === PATH && isFar(asked, inView),
    });
  }, [client, inView]);
  letGo(kept.current.pages, (page) => page >= inView[0] - BESIDE && page <= inView[1] + BESIDE);
  const version = found.map((each) => each.dataUpdatedAt).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says when the kept pages changed
  const { rows, begins } = useMemo(() => {
    const pages = now.cursors.slice(1).map((_, index) => kept.current.pages.get(index + 1) ?? []);
    return together([kept.current.top, ...pages]);
  }, [version, now.cursors.length, key, inView]);

  const hasRows = rows.length > 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows at the top are noted once for a filter, not with each reading
  useEffect(() => {
    const before = rows.slice(0, REMEMBERED).map((run) => run.run_id);
    if (isOther) setState({ about, cursors: [null], before, round: state.round });
    else if (state.before.length === 0 && hasRows) setState({ ...state, before });
  }, [isOther, about, hasRows, state]);
  const fresh = freshOf(rows, now.before);
  const end = kept.current.ends.get(now.cursors.length - 1);
  const failed = found.find((each) => each.error);
  const more = useCallback(() => {
    const next = end;
    if (!next) return;
    setState((before) =>
      before.about !== about || before.cursors.includes(next)
        ? before
        : { ...before, cursors: [...before.cursors, next] },
    );
  }, [end, about]);
  const see = useCallback(
    (first: number, last: number) => {
      const next = [pageAt(begins, first + fresh), pageAt(begins, last + fresh)] as const;
      setInView((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
    },
    [begins, fresh],
  );
  return {
    rows: fresh > 0 ? rows.slice(fresh) : rows,
    fresh,
    /** True if there are more new ones than were counted. */
    isMoreFresh: fresh >= FIRST,
    /** Let the new ones in, and read from the newest on. */
    show: () => {
      const before = rows.slice(0, REMEMBERED).map((run) => run.run_id);
      // After very many new ones the pages no longer touch: they are read from the newest on.
      if (fresh < FIRST) setState({ ...now, before });
      else setState({ about, cursors: [null], before: [], round: now.round + 1 });
      window.scrollTo({ top: 0 });
    },
    more,
    hasMore: end === undefined ? now.cursors.length > 1 : end !== null,
    see,
    isLoading: kept.current.ends.size === 0 && !failed,
    isFetching: found.some((each) => each.isFetching),
    problem: failed ? asProblem(failed.error) : null,
    again: () => void client.refetchQueries({ queryKey: [PATH] }),
  };
}
