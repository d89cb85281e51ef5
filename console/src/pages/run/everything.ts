import { useEffect } from "react";

interface List<R> {
  rows: R[];
  hasMore: boolean;
  isFetching: boolean;
  more: () => void;
}

/** Read all pages of a list, one after the other; `rows` grow meanwhile. */
export function useEverything<L extends List<unknown>>(list: L): L {
  const { hasMore, isFetching, more } = list;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `more` is new each time, and does the same
  useEffect(() => {
    if (hasMore && !isFetching) more();
  }, [hasMore, isFetching]);
  return list;
}
