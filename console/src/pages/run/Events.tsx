import { useQueries } from "@tanstack/react-query";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { send } from "@/api/client";
import { asProblem } from "@/api/problem";
import type { TabProps } from "@/pages/run/tabs";
import { useAddress } from "@/parts/address";
import { ForeignText } from "@/parts/ForeignText";
import { useKeys } from "@/parts/keys";
import { Payload } from "@/parts/payload/Payload";
import { rowHeight } from "@/parts/row-height";
import { State } from "@/parts/State";
import { Time } from "@/parts/Time";
import { factsOf, placeOf, wordsOf } from "./event-words";

type Event = Schemas["EventRow"];
const PAGE = 200;
const ROW_PX = 32;
const NEAR_END_PX = 60;

/** The history of a run. Events are numbered, so any place of it is read at once, and the tail is followed at its end. */
export default function Events({ run }: TabProps) {
  const count = run.events;
  const [open, setOpen] = useAddress("event");
  const [current, setCurrent] = useState<number | null>(null);
  const [follows, setFollows] = useState(open === "" && run.ended_at === null);
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    if (box.current) setTop(box.current.getBoundingClientRect().top + window.scrollY);
  });
  const virtual = useWindowVirtualizer({
    count,
    estimateSize: () => ROW_PX,
    measureElement: rowHeight,
    overscan: 12,
    scrollMargin: top,
    getItemKey: (index) => index + 1,
  });
  const items = virtual.getVirtualItems();
  const first = Math.floor((items.at(0)?.index ?? 0) / PAGE);
  const last = Math.floor((items.at(-1)?.index ?? 0) / PAGE);
  const pages = useMemo(() => Array.from({ length: last - first + 1 }, (_, index) => first + index), [first, last]);
  const { rows, problem, again } = usePages(run.run_id, pages, count);

  // Follow only while the reader is at the end; who scrolls up stays there.
  useEffect(() => {
    const onScroll = () => {
      const left = document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
      setFollows(left < NEAR_END_PX);
    };
    window.addEventListener("scroll", onScroll, { passive: true });
    return () => window.removeEventListener("scroll", onScroll);
  }, []);
  const wasOpened = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a link's event is gone to once, the end with each new event
  useEffect(() => {
    if (open && !wasOpened.current) virtual.scrollToIndex(Number(open) - 1, { align: "center" });
    else if (follows) virtual.scrollToIndex(count - 1, { align: "end" });
    wasOpened.current = true;
  }, [count]);

  const go = (to: number) => {
    const next = Math.min(count, Math.max(1, to));
    setCurrent(next);
    virtual.scrollToIndex(next - 1, { align: "auto" });
  };
  useKeys([
    { key: "j", words: "Next event", run: () => go((current ?? items.at(0)?.index ?? 0) + 1) },
    { key: "k", words: "Previous event", run: () => go((current ?? 2) - 1) },
    {
      key: "Enter",
      words: "Open the event",
      run: () => current !== null && setOpen(open === `${current}` ? "" : `${current}`),
    },
    { key: "G", words: "Jump to the newest", run: () => go(count) },
  ]);
  return (
    <State problem={problem} again={again} isEmpty={count === 0} noun="events">
      <div className="card events">
        <div
          ref={box}
          role="feed"
          aria-label="Events"
          aria-busy={rows.size === 0}
          className="events-rows"
          style={{ height: virtual.getTotalSize() }}
        >
          {items.map((item) => {
            const seq = item.index + 1;
            const row = rows.get(seq);
            const isOpen = open === `${seq}`;
            return (
              <article
                key={seq}
                ref={virtual.measureElement}
                data-index={item.index}
                data-seq={seq}
                data-loaded={row ? "" : undefined}
                aria-posinset={seq}
                aria-setsize={count}
                className="events-row"
                data-current={current === seq ? "" : undefined}
                style={{ transform: `translateY(${item.start - top}px)` }}
              >
                <button
                  type="button"
                  className="events-line"
                  aria-expanded={isOpen}
                  onClick={() => {
                    setCurrent(seq);
                    setOpen(isOpen ? "" : `${seq}`);
                  }}
                >
                  <span className="events-seq faint num">{seq}</span>
                  {row ? <Row row={row} /> : <span className="faint">…</span>}
                </button>
                {isOpen ? (
                  <div className="events-data">
                    {row && typeof row.step === "string" ? (
                      <p>
                        <Link to={`?step=${encodeURIComponent(row.step)}`}>Show the step in the timeline</Link>
                      </p>
                    ) : null}
                    <Payload
                      given={{ url: `/api/v1/runs/${encodeURIComponent(run.run_id)}/events/${seq}` }}
                      label={`event ${seq}`}
                    />
                  </div>
                ) : null}
              </article>
            );
          })}
        </div>
      </div>
      {run.ended_at === null ? (
        <div className="events-tail">
          {follows ? (
            <span className="faint">following: new events appear here</span>
          ) : (
            <button
              type="button"
              className="btn"
              onClick={() => {
                setFollows(true);
                virtual.scrollToIndex(count - 1, { align: "end" });
              }}
            >
              Jump to now
            </button>
          )}
        </div>
      ) : null}
    </State>
  );
}

function Row({ row }: { row: Event }) {
  const facts = factsOf(row);
  return (
    <>
      <span className="events-time faint num">
        <Time at={row.at} kind="clock" />
      </span>
      <span className="events-type">{wordsOf(row.type)}</span>
      <code className="events-step">{placeOf(row)}</code>
      <span className="events-facts faint">
        <ForeignText text={facts} />
      </span>
    </>
  );
}

/** Pages of a fixed number of events. One that is full never changes; the last is read again when there are more. */
function usePages(run: string, pages: readonly number[], count: number) {
  const found = useQueries({
    queries: pages.map((page) => {
      const isFull = (page + 1) * PAGE <= count;
      return {
        // Not under the path of the API: what is written never changes, and the number of events says when there is more.
        queryKey: ["events of a run", run, page, isFull ? "full" : count],
        queryFn: async ({ signal }: { signal: AbortSignal }) => {
          const query = { limit: PAGE, ...(page > 0 ? { cursor: String(page * PAGE) } : {}) };
          const { data } = await send("GET", "/api/v1/runs/{run}/events", {
            params: { path: { run }, query },
            signal,
          });
          return (data as { rows: Event[] }).rows;
        },
      };
    }),
  });
  const kept = useRef(new Map<number, Event>());
  for (const each of found) for (const row of each.data ?? []) kept.current.set(row.seq, row);
  const failed = found.find((each) => each.error);
  return {
    rows: kept.current,
    problem: failed ? asProblem(failed.error) : null,
    again: () => {
      for (const each of found) if (each.error) void each.refetch();
    },
  };
}
