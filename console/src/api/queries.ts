/** Hooks over the typed client: lists by cursor, rows, and commands. The path is the query's key, so events find it. */
import {
  QueryClient,
  type UseQueryOptions,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { type Method, type Paths, type Sent, send } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { unique } from "@/api/unique";

type Json<R> = R extends { content: { "application/json": infer Body } } ? Body : never;
type Answered<O> = O extends { responses: infer R }
  ? R extends { 200: infer Ok }
    ? Json<Ok>
    : R extends { 201: infer Made }
      ? Json<Made>
      : null
  : never;
type PathOf<O> = O extends { parameters: { path: infer P } } ? P : undefined;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? Q : undefined;
type BodyOf<O> = O extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer Body } }
    ? Body
    : undefined
  : undefined;

type With<M extends "get" | "post" | "delete"> = {
  [P in keyof Paths]: Paths[P] extends { [K in M]: { responses: unknown } } ? P : never;
}[keyof Paths];
type Get<P extends With<"get">> = Paths[P] extends { get: infer O } ? O : never;
type ListPath = {
  [P in With<"get">]: Answered<Get<P>> extends { rows: unknown[]; cursor: string | null } ? P : never;
}[With<"get">];
type RowPath = Exclude<With<"get">, ListPath>;

export type Row<P extends ListPath> = Answered<Get<P>> extends { rows: (infer R)[] } ? R : never;
export type Query<P extends ListPath> = Omit<NonNullable<QueryOf<Get<P>>>, "cursor">;
type Params<Path, Query> = (Path extends undefined ? { path?: never } : { path: Path }) & { query?: Query };

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: Number.POSITIVE_INFINITY,
      retry: (count, error) => asProblem(error).isOffline || (asProblem(error).status >= 500 && count < 2),
      retryDelay: (count) => Math.min(500 * 2 ** count, 5_000) * (0.75 + Math.random() / 2),
      networkMode: "always",
      // The stream of events says what to read again (api/stream/live).
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
    },
    mutations: { networkMode: "always" },
  },
});

/** Pages of a list that is read again by itself. */
const MOST_POLLED = 3;

/** Read a list page by page. `rows` is what has come so far; `more` fetches the next page. */
export function useList<P extends ListPath>(
  path: P,
  params?: Params<PathOf<Get<P>>, Query<P>>,
  options: { enabled?: boolean; every?: number | false } = {},
) {
  const query = useInfiniteQuery({
    queryKey: [path, params?.path ?? {}, params?.query ?? {}],
    queryFn: async ({ pageParam, signal }) => {
      const asked = { ...params?.query, ...(pageParam === null ? {} : { cursor: pageParam }) };
      const { data } = await send("GET", path, {
        params: { ...params, query: asked } as Sent["params"],
        signal,
      } as Sent);
      return data as { rows: Row<P>[]; cursor: string | null };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.cursor,
    enabled: options.enabled ?? true,
    // A list of many pages is not read again every few seconds, page after page.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > MOST_POLLED ? false : (options.every ?? false)),
    ...(options.every ? { staleTime: options.every } : {}),
  });
  return {
    rows: query.data?.pages.flatMap((page) => page.rows) ?? [],
    isLoading: query.isPending && query.isFetching,
    isFetching: query.isFetching,
    problem: query.error ? asProblem(query.error) : null,
    hasMore: query.hasNextPage,
    more: () => {
      if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
    },
    again: () => void query.refetch(),
    /** True if events have come since, and the list is too long to be read again unasked. */
    isBehind: query.data !== undefined && query.isStale && query.data.pages.length > MOST_POLLED && !query.isFetching,
    /** Time of the answer, in milliseconds since 1970. */
    asOf: query.dataUpdatedAt,
  };
}

/** Read one row. `tag` is its version, for `useCommand`'s `tag`. */
export function useRow<P extends RowPath>(
  path: P,
  params?: Params<PathOf<Get<P>>, QueryOf<Get<P>>>,
  options: Pick<UseQueryOptions, "staleTime"> & { enabled?: boolean; every?: number | false } = {},
) {
  const query = useQuery({
    queryKey: [path, params?.path ?? {}, params?.query ?? {}],
    queryFn: async ({ signal }) => {
      const { data, tag } = await send("GET", path, { ...(params ? { params } : {}), signal } as Sent);
      return { row: data as Answered<Get<P>>, tag };
    },
    enabled: options.enabled ?? true,
    refetchInterval: options.every ?? false,
    ...(options.staleTime === undefined && !options.every
      ? {}
      : { staleTime: (options.staleTime ?? options.every) as number }),
  });
  return {
    row: query.data?.row,
    tag: query.data?.tag ?? null,
    isLoading: query.isPending && query.isFetching,
    isFetching: query.isFetching,
    problem: query.error ? asProblem(query.error) : null,
    again: () => void query.refetch(),
    asOf: query.dataUpdatedAt,
  };
}

type CommandOf<P extends With<"post"> | With<"delete">, M extends "post" | "delete"> = Paths[P] extends {
  [K in M]: infer O;
}
  ? O
  : never;
interface Given<O> {
  path?: PathOf<O>;
  query?: QueryOf<O>;
  body?: BodyOf<O>;
  /** The version that was shown: if it has changed, nothing is done and the problem `isConflict`. */
  tag?: string | null;
}

/**
 * A command. `run` sends it once; while `isBusy`, another call is dropped. Its answer is the server's, never a guess.
 * Afterwards every query that begins with one of `touches` (default: all) is read again.
 */
export function useCommand<P extends With<"post"> | With<"delete">, M extends "post" | "delete" = "post">(
  path: P,
  options: { method?: M; touches?: readonly (keyof Paths)[]; keyed?: boolean } = {},
) {
  type O = CommandOf<P, M>;
  const all = useQueryClient();
  const mutation = useMutation<Answered<O>, Problem, Given<O>>({
    mutationFn: async (given) => {
      const method = (options.method ?? "post").toUpperCase() as Method;
      const headers: Record<string, string> = {};
      if (method === "POST" && options.keyed !== false) headers["Idempotency-Key"] = unique();
      if (given.tag) headers["If-Match"] = given.tag;
      const sent = {
        params: { path: given.path, query: given.query },
        headers,
        ...(given.body === undefined ? {} : { body: given.body }),
      };
      return (await send(method, path, sent as Sent)).data as Answered<O>;
    },
    onSettled: async () => {
      const touched = options.touches;
      await all.invalidateQueries(
        touched ? { predicate: (query) => touched.includes(query.queryKey[0] as keyof Paths) } : {},
      );
    },
  });
  return {
    run: async (given: Given<O>): Promise<Answered<O> | undefined> => {
      if (mutation.isPending) return undefined;
      return mutation.mutateAsync(given);
    },
    isBusy: mutation.isPending,
    problem: mutation.error ? asProblem(mutation.error) : null,
    answer: mutation.data,
    reset: mutation.reset,
  };
}
