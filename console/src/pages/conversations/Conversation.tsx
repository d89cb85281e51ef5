import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { useMay } from "@/api/caller";
import { useCommand, useRow } from "@/api/queries";
import { Composer } from "@/pages/conversations/Composer";
import { SetLimits } from "@/pages/conversations/SetLimits";
import { Turn } from "@/pages/conversations/Turn";
import { type Exchange, onTheWay, type Stopped, stopOf, type Whole } from "@/pages/conversations/words";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import "./Conversation.css";

const BUSY_MS = 1_000;
const IDLE_MS = 4_000;

/** A conversation with an agent: what was said, what is being said, and what one says next. */
export default function Conversation() {
  const { id: name = "" } = useParams();
  const [params] = useSearchParams();
  const tenant = params.get("tenant") ?? undefined;
  const [isBusy, setBusy] = useState(true);
  const conversation = useRow(
    "/api/v1/conversations/{name}",
    { path: { name }, ...(tenant ? { query: { tenant } } : {}) },
    { every: isBusy ? BUSY_MS : IDLE_MS },
  );
  const row = conversation.row;
  const run = useRow(
    "/api/v1/runs/{run}",
    { path: { run: row?.run ?? "" } },
    { enabled: Boolean(row?.run), every: IDLE_MS },
  );
  const stop = row?.run ? stopOf(run.row) : null;
  const isWorking = row ? row.active !== null || row.waiting.length > 0 : true;
  useEffect(() => setBusy(isWorking), [isWorking]);
  return (
    <Page
      title={name}
      above={
        <Link className="muted plain" to="/conversations">
          Conversations /
        </Link>
      }
      facts={row ? <Facts row={row} isStopped={stop !== null} /> : null}
      actions={
        row ? (
          <>
            {row.run ? <Stop run={row.run} /> : null}
            <SetLimits row={row} />
          </>
        ) : null
      }
    >
      <State
        isLoading={conversation.isLoading}
        problem={conversation.problem}
        again={conversation.again}
        noun="messages"
      >
        {row ? (
          <Thread key={`${row.tenant}/${row.name}`} row={row} tenant={tenant} again={conversation.again} stop={stop} />
        ) : null}
      </State>
    </Page>
  );
}

function Facts({ row, isStopped }: { row: Whole; isStopped: boolean }) {
  return (
    <>
      <span>{row.agent}</span>
      {row.active === null ? null : isStopped ? (
        <Status status="budget_blocked" words="stopped" />
      ) : (
        <Status status="running" words="answering" />
      )}
      <span>
        <Money usd={row.spent_usd} /> spent
        {row.held_usd === "0.00" ? null : (
          <>
            , <Money usd={row.held_usd} /> held
          </>
        )}
        {row.limit_usd === null ? null : (
          <>
            {" "}
            of <Money usd={row.limit_usd} />
          </>
        )}
      </span>
      {row.private ? <span>private</span> : null}
    </>
  );
}

/** Ends the run that answers now. What it has said so far stays in its history. */
function Stop({ run }: { run: string }) {
  const may = useMay("operator");
  const command = useCommand("/api/v1/runs/{run}/cancel", {
    touches: ["/api/v1/conversations/{name}", "/api/v1/gates"],
  });
  return (
    <button
      type="button"
      className="btn"
      disabled={command.isBusy || !may}
      onClick={() => {
        command.run({ path: { run }, body: { reason: "The reader stopped the reply." } }).catch(() => undefined);
      }}
    >
      {command.isBusy ? "Stopping…" : "Stop the reply"}
    </button>
  );
}

interface ThreadProps {
  row: Whole;
  tenant: string | undefined;
  again: () => void;
  stop: Stopped | null;
}

function Thread({ row, tenant, again, stop }: ThreadProps) {
  const [showsAll, setShowsAll] = useState(false);
  const { shown, others } = onTheWay(row);
  const exchanges = showsAll ? row.exchanges : shown;
  const turns = exchanges.filter((each) => each.steers === null);
  const { thread, isAtEnd, toEnd } = useEnd();
  return (
    <>
      <div className="thread" ref={thread}>
        {others > 0 || showsAll ? (
          <p className="thread-note">
            {showsAll
              ? "All branches are shown. "
              : `${others} ${others === 1 ? "message is" : "messages are"} on other branches. `}
            <button type="button" className="btn quiet" onClick={() => setShowsAll(!showsAll)}>
              {showsAll ? "Show this branch only" : "Show them"}
            </button>
          </p>
        ) : null}
        {turns.length === 0 ? (
          <p className="state">No messages yet. Write the first message to {row.agent}.</p>
        ) : (
          turns.map((each) => (
            <Turn
              key={each.number}
              exchange={each}
              steering={steeringOf(exchanges, each)}
              isActive={each.number === row.active}
              again={again}
              stop={each.number === row.active ? stop : null}
            />
          ))
        )}
      </div>
      <div className="thread-foot">
        {isAtEnd ? null : (
          <button type="button" className="btn thread-jump" onClick={toEnd}>
            Jump to now
          </button>
        )}
        <Composer row={row} tenant={tenant} onSent={toEnd} />
      </div>
    </>
  );
}

function steeringOf(exchanges: readonly Exchange[], of: Exchange): Exchange[] {
  return exchanges.filter((each) => each.steers === of.number);
}

const NEAR_PX = 80;

/** Keeps the page at its end while the reader is there, and only then. */
function useEnd() {
  const thread = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const stays = useRef(true);
  useEffect(() => {
    const look = () => {
      const { scrollTop, clientHeight, scrollHeight } = document.documentElement;
      stays.current = scrollTop + clientHeight >= scrollHeight - NEAR_PX;
      setAtEnd(stays.current);
    };
    window.addEventListener("scroll", look, { passive: true });
    return () => window.removeEventListener("scroll", look);
  }, []);
  useLayoutEffect(() => {
    const element = thread.current;
    if (!element) return;
    const grown = new ResizeObserver(() => {
      if (stays.current) window.scrollTo({ top: document.documentElement.scrollHeight });
    });
    grown.observe(element);
    return () => grown.disconnect();
  }, []);
  const toEnd = () => {
    stays.current = true;
    setAtEnd(true);
    window.scrollTo({ top: document.documentElement.scrollHeight });
  };
  return { thread, isAtEnd, toEnd };
}
