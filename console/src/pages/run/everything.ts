import { useEffect } from "react";

interface List<R> {
  rows: R[];
  hasMore: boolean;
  isFetching: boolean;
  isBehind: boolean;
  more: () => void;
  again: () => void;
}

/** All pages of a long list are read again no more often than this. */
const PAUSE_MS = 5_000;

/** Read all pages of a list, one after the other; `rows` grow meanwhile. */
export function useEverything<L extends List<unknown>>(list: L): L {
  const { hasMore, isFetching, isBehind, more, again } = list;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `more` is new each time, and does the same
  useEffect(() => {
    if (hasMore && !isFetching) more();
  }, [hasMore, isFetching]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  useEffect(() => {
    if (!isBehind) return;
    const timer = setTimeout(again, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [isBehind]);
  return list;
}
