import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Link, useLocation, useNavigate } from "react-router";
import { useKeys } from "@/parts/keys";
import { rowHeight } from "@/parts/row-height";
import "./Table.css";

export interface Column<R> {
  /** Unique in the table. */
  name: string;
  title: ReactNode;
  /** Track of a CSS grid: `120px`, `minmax(160px, 2fr)`. */
  width: string;
  isNumber?: boolean;
  /** On a narrow screen: `main` is the line of its own, `side` stands beside others, `none` is left out. */
  narrow?: "main" | "side" | "none";
  cell: (row: R) => ReactNode;
}

interface Props<R, Gone> {
  /** What the rows are: "Runs". */
  label: string;
  columns: readonly Column<R>[];
  rows: readonly (R | Gone)[];
  idOf: (row: R | Gone) => string;
  /** Address that a row leads to. The row is then a real link. */
  linkOf?: (row: R | Gone) => string;
  /** Name of a row's link for those who do not see it. */
  nameOf?: (row: R) => string;
  /** Called near the end of what is there. */
  more?: (() => void) | undefined;
  hasMore?: boolean;
  /** True for a row of which only the id is there. It is shown as loading, in its place. */
  isGone?: (row: R | Gone) => boolean;
  /** Called with the first and the last row in view. */
  onView?: (first: number, last: number) => void;
  selected?: string | undefined;
  onSelect?: (row: R | Gone) => void;
  /** Keys `x`: marks rows, for acting on several. */
  marked?: ReadonlySet<string>;
  onMark?: (row: R | Gone) => void;
}

const NEAR_END = 20;
const ROW_PX = 36;
/** By the entry of the browser's history: the row that was opened from there. Back goes to it. */
const opened = new Map<string, string>();

/** Rows of a list. Only those on the screen are in the document; the page scrolls, not a box in it. */
export function Table<R, Gone = never>(props: Props<R, Gone>) {
  const {
    label,
    columns,
    rows,
    idOf,
    linkOf,
    nameOf,
    more,
    hasMore,
    isGone,
    onView,
    selected,
    onSelect,
    marked,
    onMark,
  } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const { key: entry } = useLocation();
  const [at, setAt] = useState(() => opened.get(entry));
  const navigate = useNavigate();
  const here = selected ?? at;

  useLayoutEffect(() => {
    if (box.current) setTop(box.current.getBoundingClientRect().top + window.scrollY);
  }, []);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    measureElement: rowHeight,
    overscan: 8,
    scrollMargin: top,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : idOf(row);
    },
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => onView?.(first, last), [onView, first, last]);
  useEffect(() => {
    if (hasMore && last >= rows.length - NEAR_END) more?.();
  }, [hasMore, last, rows.length, more]);

  const wasHere = useRef(at);
  useEffect(() => {
    const back = wasHere.current;
    if (back === undefined || items.length === 0) return;
    wasHere.current = undefined;
    box.current
      ?.querySelector<HTMLElement>(`[data-row="${CSS.escape(back)}"] .table-link`)
      ?.focus({ preventScroll: true });
  }, [items.length]);
  const open = (row: R | Gone) => opened.set(entry, idOf(row));

  const move = (by: number) => {
    const index = rows.findIndex((row) => idOf(row) === here);
    const next = rows[index === -1 ? (by > 0 ? 0 : -1) : Math.min(rows.length - 1, Math.max(0, index + by))];
    if (next === undefined) return;
    setAt(idOf(next));
    onSelect?.(next);
    virtual.scrollToIndex(rows.indexOf(next), { align: "auto" });
  };
  // The last row is known when all pages are there: it is gone to until then, or until the person does something else.
  const [isToEnd, setToEnd] = useState(false);
  const goToEnd = useRef(() => undefined as unknown);
  goToEnd.current = () => {
    const end = rows.at(-1);
    if (end === undefined) return;
    virtual.scrollToIndex(rows.length - 1, { align: "end" });
    if (hasMore) return;
    setToEnd(false);
    setAt(idOf(end));
    onSelect?.(end);
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: again with each page
  useEffect(() => {
    if (isToEnd) goToEnd.current();
  }, [isToEnd, rows.length, hasMore]);
  useEffect(() => {
    if (!isToEnd) return;
    const stop = () => setToEnd(false);
    const events = ["wheel", "pointerdown", "keydown", "touchmove"] as const;
    for (const each of events) window.addEventListener(each, stop, { passive: true });
    return () => {
      for (const each of events) window.removeEventListener(each, stop);
    };
  }, [isToEnd]);
  const current = rows.find((row) => idOf(row) === here);
  useKeys([
    { key: "j", words: "Next row", run: () => move(1) },
    { key: "k", words: "Previous row", run: () => move(-1) },
    ...(linkOf
      ? [
          {
            key: "Enter",
            words: "Open the row",
            run: () => {
              if (current === undefined) return;
              open(current);
              void navigate(linkOf(current));
            },
          },
        ]
      : []),
    { key: "End", words: "Last row", run: () => setToEnd(true) },
    ...(onMark ? [{ key: "x", words: "Mark the row", run: () => current !== undefined && onMark(current) }] : []),
  ]);

  const tracks = columns.map((column) => column.width).join(" ");
  return (
    // biome-ignore lint/a11y/useSemanticElements: rows of a table element cannot be placed one by one
    <div className="table" role="table" aria-label={label} aria-rowcount={hasMore ? -1 : rows.length + 1} ref={box}>
      {/* biome-ignore lint/a11y/useSemanticElements: as above */}
      {/* biome-ignore lint/a11y/useFocusableInteractive: a heading is read, not focused */}
      <div className="table-head" role="row" style={{ gridTemplateColumns: tracks }}>
        {columns.map((column) => (
          // biome-ignore lint/a11y/useSemanticElements: as above
          // biome-ignore lint/a11y/useFocusableInteractive: as above
          <div key={column.name} role="columnheader" className={column.isNumber ? "num" : undefined}>
            {column.title}
          </div>
        ))}
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: as above */}
      <div className="table-body" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const each = rows[item.index];
          if (each === undefined) return null;
          const id = idOf(each);
          if (isGone?.(each)) {
            return (
              // biome-ignore lint/a11y/useSemanticElements: as above
              // biome-ignore lint/a11y/useFocusableInteractive: there is nothing in it yet
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                role="row"
                aria-rowindex={item.index + 2}
                aria-busy="true"
                className="table-row faint"
                style={{ transform: `translateY(${item.start - top}px)` }}
              >
                {/* biome-ignore lint/a11y/useSemanticElements: as above */}
                <div role="cell">Loading…</div>
              </div>
            );
          }
          const row = each as R;
          return (
            // biome-ignore lint/a11y/useSemanticElements: as above
            // biome-ignore lint/a11y/useFocusableInteractive: the link in the row has the focus
            <div
              key={item.key}
              ref={virtual.measureElement}
              data-index={item.index}
              data-row={id}
              role="row"
              aria-rowindex={item.index + 2}
              aria-selected={id === here}
              className="table-row"
              data-marked={marked?.has(id) ? "" : undefined}
              style={{ gridTemplateColumns: tracks, transform: `translateY(${item.start - top}px)` }}
            >
              {columns.map((column, index) => (
                // biome-ignore lint/a11y/useSemanticElements: as above
                <div
                  key={column.name}
                  role="cell"
                  className={column.isNumber ? "num" : undefined}
                  data-narrow={column.narrow ?? "side"}
                >
                  {index === 0 && linkOf ? (
                    <Link
                      className="table-link"
                      to={linkOf(row)}
                      aria-label={nameOf?.(row) ?? id}
                      onClick={() => open(row)}
                    />
                  ) : null}
                  {column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
      {hasMore ? (
        <div className="table-more faint">
          Loading more… {isToEnd ? `${rows.length.toLocaleString("en")} rows so far, any key stops` : null}
        </div>
      ) : null}
    </div>
  );
}
