/** What a page keeps in the address, so that Back, a reload and a copied link show the same. */
import { useCallback } from "react";
import { useSearchParams } from "react-router";

/** A text in the address. The empty text is left out. A change replaces the entry of the history unless `push`. */
export function useAddress(name: string, otherwise = "", options: { push?: boolean } = {}) {
  const [params, setParams] = useSearchParams();
  const push = options.push ?? false;
  const set = useCallback(
    (value: string) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          if (value === otherwise) next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: !push, preventScrollReset: true },
      ),
    [setParams, name, otherwise, push],
  );
  return [params.get(name) ?? otherwise, set] as const;
}
