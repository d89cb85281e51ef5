/** A page that is a list: a declaration of what it reads, filters by and shows. */
import { type ReactNode, useMemo } from "react";
import { useCaller } from "@/api/caller";
import { type Query, type Row, useList } from "@/api/queries";
import { FilterFields } from "@/parts/FilterFields";
import { ForeignText } from "@/parts/ForeignText";
import { type Filter, type Filters, useFilters } from "@/parts/filters";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { useSettled } from "@/parts/settled";
import { type Column, Table } from "@/parts/Table";

type ListPath = Parameters<typeof useList>[0];

export interface Listing<P extends ListPath, R = Row<P>> {
  title: string;
  /** What the rows are, in the plural: "dead letters". */
  noun: string;
  path: P;
  /** Sent always, beside the filters. */
  query?: Query<P>;
  filters?: readonly Filter[];
  columns: readonly Column<R>[];
  idOf: (row: R) => string;
  linkOf?: (row: R) => string;
  nameOf?: (row: R) => string;
  /** Whose a row is. One who acts for all tenants gets a column and a filter of it. */
  tenantOf?: (row: R) => string | null;
  /** Rows as the page shows them, where they are not the API's. */
  rowsOf?: (rows: readonly Row<P>[]) => readonly R[];
  /** Milliseconds after which the list is read again. */
  every?: number;
  /** The newest come first: what is new waits until it is asked for. */
  isNewestFirst?: boolean;
  /** What a newcomer does to have one. */
  hint?: ReactNode;
  /** Beside the title; by default the number of rows. */
  facts?: ReactNode;
  actions?: ReactNode;
  /** Above the filters. */
  above?: ReactNode;
  /** Below the filters: about what they leave. */
  about?: (found: { query: Filters["query"]; words: string | undefined; rows: readonly R[] }) => ReactNode;
  selected?: string | undefined;
}

const TENANT: Filter = { name: "tenant", title: "Tenant" };
const NONE: readonly Filter[] = [];

/** The list of a page, without its heading: for pages with more than one. */
export function List<P extends ListPath, R = Row<P>>(props: Listing<P, R>) {
  const { noun, path, columns, idOf, tenantOf, rowsOf, about, filters = NONE } = props;
  const isForAll = useCaller()?.tenant === null && tenantOf !== undefined;
  const fields = useMemo(() => (isForAll ? [...filters, TENANT] : filters), [filters, isForAll]);
  const set = useFilters(fields);
  const query = { ...props.query, ...set.query } as Query<P>;
  const list = useList(path, { query } as never, { every: props.every ?? false });
  const shown = (rowsOf ? rowsOf(list.rows) : list.rows) as readonly R[];
  const settled = useSettled(shown, idOf, JSON.stringify([path, query]));
  const rows = props.isNewestFirst ? settled.rows : shown;
  const tracks = useMemo(() => {
    if (!isForAll || !tenantOf) return columns;
    const cell = (row: R) => <ForeignText text={tenantOf(row) ?? "all tenants"} />;
    return [...columns, { name: "tenant", title: "Tenant", width: "minmax(80px, 1fr)", cell }];
  }, [columns, isForAll, tenantOf]);
  return (
    <>
      <FilterFields filters={fields} set={set} />
      {about?.({ query: set.query, words: set.words, rows })}
      {props.isNewestFirst && settled.fresh > 0 ? (
        <button type="button" className="chip on" onClick={settled.show}>
          {settled.fresh} new
        </button>
      ) : null}
      <State
        isLoading={list.isLoading}
        problem={list.problem}
        again={list.again}
        isEmpty={rows.length === 0}
        noun={noun}
        filter={set.words}
        clear={set.clear}
        hint={props.hint}
      >
        <Table
          label={props.title}
          columns={tracks}
          rows={rows}
          idOf={idOf}
          {...(props.linkOf ? { linkOf: props.linkOf } : {})}
          {...(props.nameOf ? { nameOf: props.nameOf } : {})}
          selected={props.selected}
          more={list.more}
          hasMore={list.hasMore}
        />
      </State>
    </>
  );
}

export function ListPage<P extends ListPath, R = Row<P>>(props: Listing<P, R>) {
  return (
    <Page title={props.title} facts={props.facts} actions={props.actions}>
      {props.above}
      <List {...props} />
    </Page>
  );
}
