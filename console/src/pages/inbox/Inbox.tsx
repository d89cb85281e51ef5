import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { useCaller } from "@/api/caller";
import { useList } from "@/api/queries";
import { ActingAs } from "@/pages/inbox/ActingAs";
import { Gate } from "@/pages/inbox/Gate";
import { type GateRow, reasonWords, titleOf } from "@/pages/inbox/words";
import { useAddress } from "@/parts/address";
import { ForeignText } from "@/parts/ForeignText";
import { useKeys } from "@/parts/keys";
import { useMedia } from "@/parts/media";
import { Page } from "@/parts/Page";
import { rowHeight } from "@/parts/row-height";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { Time } from "@/parts/Time";
import "./Inbox.css";

const SHOWS = ["mine", "teams", "anyone", "open", "decided"] as const;
type Show = (typeof SHOWS)[number];
const WORDS: Record<Show, string> = {
  mine: "mine",
  teams: "my teams",
  anyone: "anyone",
  open: "all open",
  decided: "decided",
};
const ASKS = { mine: "me", teams: "team", anyone: "anyone" } as const;
type Asking = keyof typeof ASKS;
const ASKING = Object.keys(ASKS) as Asking[];
const ROW_PX = 62;
const NEAR_END = 10;

/** What people are asked, by deadline; at its side the gate that is selected. */
export default function Inbox() {
  const { gate: given } = useParams();
  const [asked, setShow] = useAddress("show");
  const isWide = useMedia("(min-width: 900px)");
  const navigate = useNavigate();
  const caller = useCaller();
  const asking = { mine: useAsking("mine"), teams: useAsking("teams"), anyone: useAsking("anyone") };
  const first = useFirst(asking, given);
  // Whom a question asks by name or role is not known of one who has not said a name: all are shown, and stay when they do.
  const isNameless = caller !== undefined && !caller.verified && !caller.name;
  const isNothing = ASKING.every((each) => !asking[each].isLoading && asking[each].rows.length === 0);
  const isAll = useRef(false);
  isAll.current ||= isNameless && isNothing;
  const show = SHOWS.find((each) => each === asked) ?? (isAll.current ? "open" : first);
  const others = useList(
    "/api/v1/gates",
    { query: { order: show === "decided" ? "closed" : "due", limit: 100 } },
    { enabled: show === "open" || show === "decided" },
  );
  const list = show === "open" || show === "decided" ? others : asking[show];
  const { rows } = list;
  const selected = given ?? (isWide ? rows[0]?.gate_id : undefined);
  const search = `?show=${show}`;
  const addressOf = (id: string) => `/inbox/${encodeURIComponent(id)}${search}`;

  // Keys may come faster than the router shows what they select.
  const target = useRef(selected);
  useEffect(() => {
    target.current = selected;
  }, [selected]);
  const move = (by: number) => {
    const index = rows.findIndex((row) => row.gate_id === target.current);
    const next = rows[index === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, index + by))];
    if (next) target.current = next.gate_id;
    if (next) void navigate(addressOf(next.gate_id), { replace: given !== undefined });
  };
  useKeys([
    { key: "j", words: "Next gate", run: () => move(1) },
    { key: "k", words: "Previous gate", run: () => move(-1) },
  ]);

  return (
    <Page
      title="Inbox"
      facts={ASKING.some((each) => asking[each].isLoading) ? null : <span>{countWords(asking)}</span>}
      actions={
        <div className="line">
          {SHOWS.map((each) => (
            <button
              key={each}
              type="button"
              className={each === show ? "chip on" : "chip"}
              aria-pressed={each === show}
              onClick={() => setShow(each)}
            >
              {WORDS[each]} <Count list={each in asking ? asking[each as Asking] : undefined} />
            </button>
          ))}
        </div>
      }
    >
      {caller && !caller.verified ? <ActingAs caller={caller} /> : null}
      <div className="inbox" data-open={given !== undefined}>
        <div className="inbox-list">
          <State
            isLoading={list.isLoading}
            problem={list.problem}
            again={list.again}
            isEmpty={rows.length === 0}
            noun="gates"
            empty={<Empty show={show} asking={asking} setShow={setShow} />}
          >
            <Rows rows={rows} selected={selected} addressOf={addressOf} more={list.more} hasMore={list.hasMore} />
            <p className="inbox-keys faint">
              <kbd>j</kbd> <kbd>k</kbd> move <kbd>a</kbd> approve <kbd>e</kbd> edit <kbd>r</kbd> reject
            </p>
          </State>
        </div>
        {selected ? (
          <div className="inbox-gate">
            <Gate
              id={selected}
              above={
                <Link className="inbox-back btn quiet" to={`/inbox${search}`}>
                  ‹ Inbox
                </Link>
              }
              // The decided gate leaves the list: its page stays, and shows what became of it.
              onDecided={() => given === undefined && void navigate(addressOf(selected), { replace: true })}
            />
          </div>
        ) : null}
      </div>
    </Page>
  );
}

type List = ReturnType<typeof useAsking>;

/** The open gates that ask the person by name, by a role or team, or that ask anyone. */
function useAsking(show: Asking) {
  return useList("/api/v1/gates", { query: { asks: [ASKS[show]], order: "due", limit: 100 } });
}

/** The list to begin with: that of the gate in the address, or the first that has something. It stays while the page does. */
function useFirst(asking: Record<Asking, List>, given: string | undefined): Asking {
  const first = useRef<Asking | null>(null);
  if (first.current === null && ASKING.every((each) => !asking[each].isLoading)) {
    first.current =
      ASKING.find((each) => asking[each].rows.some((row) => row.gate_id === given)) ??
      ASKING.find((each) => asking[each].rows.length > 0) ??
      "mine";
  }
  return first.current ?? "mine";
}

function many(list: List): string {
  return `${list.rows.length.toLocaleString("en-US")}${list.hasMore ? "+" : ""}`;
}

function Count({ list }: { list: List | undefined }) {
  return list && list.rows.length > 0 ? <strong>{many(list)}</strong> : null;
}

function countWords({ mine, teams, anyone }: Record<Asking, List>): string {
  const lists = [mine, teams, anyone];
  const total = lists.reduce((sum, each) => sum + each.rows.length, 0);
  const more = lists.some((each) => each.hasMore) ? "+" : "";
  if (total === 0) return "";
  return total === 1 && !more ? "1 question waits for you" : `${total}${more} questions wait for you`;
}

interface EmptyProps {
  show: Show;
  asking: Record<Asking, List>;
  setShow: (show: string) => void;
}

/** What there is to know and to do where a list is empty. */
function Empty({ show, asking, setShow }: EmptyProps) {
  const left = ASKING.filter((each) => each !== show && asking[each].rows.length > 0);
  if (show === "decided") return <p>Nothing has been decided yet.</p>;
  if (left.length > 0) {
    return (
      <>
        <p>{NOTHING[show]}</p>
        <div className="line">
          {left.map((each) => (
            <button key={each} type="button" className="btn" onClick={() => setShow(each)}>
              See {many(asking[each])} for {OF[each]}
            </button>
          ))}
        </div>
      </>
    );
  }
  return (
    <>
      <p>{show === "open" ? "No question is open." : "Nothing waits for you."}</p>
      <p className="muted">
        When a run needs a decision, it stands here. <Link to="/workflows">Start a workflow</Link> that asks a person,
        or look at what was{" "}
        <button type="button" className="link" onClick={() => setShow("decided")}>
          decided before
        </button>
        .
      </p>
    </>
  );
}

const NOTHING: Record<Exclude<Show, "decided">, string> = {
  mine: "Nothing asks you by name.",
  teams: "Nothing asks your teams or roles.",
  anyone: "Every question names who is to decide.",
  open: "No question is open.",
};
const OF: Record<Asking, string> = { mine: "you", teams: "your teams", anyone: "anyone" };

interface RowsProps {
  rows: readonly GateRow[];
  selected: string | undefined;
  addressOf: (id: string) => string;
  more: () => void;
  hasMore: boolean;
}

function Rows({ rows, selected, addressOf, more, hasMore }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    measureElement: rowHeight,
    overscan: 6,
    getItemKey: (index) => rows[index]?.gate_id ?? index,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= rows.length - NEAR_END) more();
  }, [hasMore, last, rows.length, more]);
  const at = rows.findIndex((row) => row.gate_id === selected);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [at, virtual]);
  return (
    <div className="inbox-rows" ref={box}>
      <ul style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          return (
            <li
              key={item.key}
              ref={virtual.measureElement}
              data-index={item.index}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <Link
                className="inbox-row"
                to={addressOf(row.gate_id)}
                aria-current={row.gate_id === selected ? "true" : undefined}
                data-gate={row.gate_id}
              >
                <strong className="inbox-title">
                  <ForeignText text={titleOf(row)} />
                </strong>
                <span className="inbox-about">
                  <ForeignText text={row.workflow} /> · {reasonWords(row.reason).toLowerCase()}
                </span>
                <When row={row} />
              </Link>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function When({ row }: { row: GateRow }) {
  if (row.state === "open" || row.state === "escalated") {
    return (
      <span className="inbox-when" data-late={row.state === "escalated" ? "" : undefined}>
        {row.risk_level === "high" || row.risk_level === "critical" ? (
          <span className="inbox-risk">{row.risk_level} risk</span>
        ) : null}
        {row.due_at ? (
          <>
            {row.state === "escalated" ? "was due" : "due"} <Time at={row.due_at} />
          </>
        ) : (
          "no deadline"
        )}
      </span>
    );
  }
  return (
    <span className="inbox-when">
      <Status status={row.state} words={row.decision ? `${row.decision}${row.by ? ` by ${row.by}` : ""}` : row.state} />{" "}
      <Time at={row.closed_at} />
    </span>
  );
}
