/** The filters of a list, which the address holds and the server applies. */
import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router";

export interface Filter {
  /** Parameter of the API and of the address. */
  name: string;
  /** In words: "Workflow". */
  title: string;
  /** The values that it can have; without them any text. An empty value stands for the server's default. */
  choices?: readonly Choice[];
  /** Texts that are offered. */
  suggestions?: readonly string[];
  /** A date, which the address holds as `2026-11-28` and the API gets as milliseconds of its start in UTC. */
  isDate?: boolean;
}

export interface Choice {
  value: string;
  words: string;
}

export interface Filters {
  values: Readonly<Record<string, string>>;
  /** Of the API: what is set. */
  query: Readonly<Record<string, string | number>>;
  /** What is set, for the sentence that names an empty list; undefined if nothing is. */
  words: string | undefined;
  set: (name: string, value: string) => void;
  clear: () => void;
}

export function useFilters(filters: readonly Filter[]): Filters {
  const [address, setAddress] = useSearchParams();
  const found = useMemo(() => read(filters, address), [filters, address]);
  const set = useCallback(
    (name: string, value: string) =>
      setAddress(
        (before) => {
          const next = new URLSearchParams(before);
          if (value) next.set(name, value);
          else next.delete(name);
          return next;
        },
        { replace: true },
      ),
    [setAddress],
  );
  const clear = useCallback(
    () =>
      setAddress(
        (before) => {
          const next = new URLSearchParams(before);
          for (const each of filters) next.delete(each.name);
          return next;
        },
        { replace: true },
      ),
    [setAddress, filters],
  );
  return { ...found, set, clear };
}

export function read(
  filters: readonly Filter[],
  address: URLSearchParams,
): Pick<Filters, "values" | "query" | "words"> {
  const values: Record<string, string> = {};
  const query: Record<string, string | number> = {};
  const words: string[] = [];
  for (const filter of filters) {
    const value = address.get(filter.name) ?? "";
    values[filter.name] = value;
    if (!value) continue;
    const choice = filter.choices?.find((each) => each.value === value);
    words.push(`${filter.title.toLowerCase()} “${choice?.words ?? value}”`);
    if (!filter.isDate) query[filter.name] = value;
    else if (!Number.isNaN(Date.parse(value))) query[filter.name] = Date.parse(value);
  }
  return { values, query, words: words.length > 0 ? words.join(" and ") : undefined };
}
