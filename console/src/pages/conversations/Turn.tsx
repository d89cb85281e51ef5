import { useEffect, useState } from "react";
import { Link } from "react-router";
import { useList } from "@/api/queries";
import { followRun } from "@/api/run-stream";
import { Blocks } from "@/pages/conversations/Blocks";
import { add, type Said } from "@/pages/conversations/said";
import type { Exchange, Stopped } from "@/pages/conversations/words";
import { Gate } from "@/pages/inbox/Gate";
import { titleOf } from "@/pages/inbox/words";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { shortRun } from "@/parts/runs";
import { Status } from "@/parts/Status";
import { Time } from "@/parts/Time";

interface Props {
  exchange: Exchange;
  /** Messages that came while it was being answered. */
  steering: readonly Exchange[];
  isActive: boolean;
  /** Why its run does not go on, if money stops it. */
  stop: Stopped | null;
  /** Reads the conversation again. */
  again: () => void;
}

const GATES_MS = 1_500;

/** A message and its reply, which streams while its run is at work. */
export function Turn({ exchange, steering, isActive, stop, again }: Props) {
  const { run } = exchange;
  const [isOpened, setOpened] = useState(false);
  // Once it has been read as it came, the way to the reply stays on the page.
  const [isFollowed, setFollowed] = useState(false);
  useEffect(() => {
    if (isActive) setFollowed(true);
  }, [isActive]);
  const said = withoutBeginning(useSaid(run, isFollowed || isActive || isOpened, again), exchange.reply);
  const isShort = !(isFollowed || isActive || isOpened);
  return (
    <article className="turn" aria-label={`Message ${exchange.number}`} data-left={exchange.left || undefined}>
      <Message exchange={exchange} />
      {steering.map((each) => (
        <Message key={each.number} exchange={each} />
      ))}
      <div className="turn-reply" aria-busy={isActive && stop === null}>
        {isShort ? null : <Blocks said={said} isLive={isActive} />}
        {run && (isActive || isOpened || isFollowed) ? <Gates run={run} isActive={isActive} /> : null}
        <Reply exchange={exchange} said={isShort ? [] : said} isActive={isActive && stop === null} />
        {stop ? (
          <p className="turn-problem" role="status">
            {stop.words} <Link to={stop.to}>{stop.link}</Link>
          </p>
        ) : null}
        <footer className="turn-foot faint">
          {run ? (
            <Link className="plain" to={`/runs/${run}`}>
              Run <code>{shortRun(run)}</code>
            </Link>
          ) : null}
          {exchange.agent ? <span>answered by {exchange.agent}</span> : null}
          {exchange.reply ? <CopyButton text={exchange.reply} label="Copy the reply" /> : null}
          {run && isShort && !isActive ? (
            <button type="button" className="turn-more" onClick={() => setOpened(true)}>
              How it got there
            </button>
          ) : null}
        </footer>
      </div>
    </article>
  );
}

/** The blocks of a run's reply so far. */
function useSaid(run: string | null, isWanted: boolean, again: () => void): Said {
  const [held, setHeld] = useState<{ run: string | null; said: Said }>({ run, said: [] });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another function that reads again is no reason to begin anew
  useEffect(() => {
    if (run === null || !isWanted) return;
    setHeld({ run, said: [] });
    return followRun(run, {
      onPieces: (pieces) => setHeld((before) => ({ run, said: pieces.reduce(add, before.said) })),
      onEnd: again,
    });
  }, [run, isWanted]);
  return held.run === run ? held.said : [];
}

function Message({ exchange }: { exchange: Exchange }) {
  const state = exchange.steers !== null ? "steers the reply" : exchange.status === "waiting" ? "queued" : null;
  return (
    <div className="turn-message">
      <div className="turn-by faint">
        {exchange.by ? (
          <>
            <ForeignText text={exchange.by} /> ·
          </>
        ) : null}
        <Time at={exchange.sent_at} />
        {state ? <Status status={exchange.status === "waiting" ? "waiting" : "ready"} words={state} /> : null}
        {exchange.left ? <span>replaced by a later message</span> : null}
      </div>
      <div className="turn-text">
        <ForeignText text={exchange.text} isBlock />
        {exchange.parts.map((each) => (
          <div key={each.sha256} className="faint">
            {each.type}, {each.media_type}, {each.size_bytes.toLocaleString("en")} bytes
          </div>
        ))}
      </div>
    </div>
  );
}

/** The reply can be known before the end of its text has come: what has come of it would stand above it once more. */
function withoutBeginning(said: Said, reply: string | null): Said {
  const last = said.findLast((each) => each.kind === "text");
  const isBeginning = reply !== null && last !== undefined && last.text !== reply && reply.startsWith(last.text);
  return isBeginning ? said.filter((each) => each !== last) : said;
}

function Reply({ exchange, said, isActive }: { exchange: Exchange; said: Said; isActive: boolean }) {
  const last = said.findLast((each) => each.kind === "text");
  if (exchange.reply !== null && exchange.reply !== last?.text) {
    return (
      <div className="turn-prose">
        <ForeignText text={exchange.reply} isBlock />
      </div>
    );
  }
  if (exchange.problem) {
    return (
      <p className="turn-problem">
        <Status status={exchange.status} /> <ForeignText text={exchange.problem} />
      </p>
    );
  }
  if (exchange.status === "failed" || exchange.status === "cancelled") return <Status status={exchange.status} />;
  if (isActive && said.length === 0) return <p className="faint">Working…</p>;
  return null;
}

/** What the run asks a person, to be decided here; below it what was decided. */
function Gates({ run, isActive }: { run: string; isActive: boolean }) {
  const gates = useList(
    "/api/v1/gates",
    { query: { run, below: true, all: true, limit: 50 } },
    { every: isActive && GATES_MS },
  );
  const isOpen = (state: string) => state === "open" || state === "escalated";
  return (
    <>
      {gates.rows
        .filter((each) => !isOpen(each.state))
        .map((each) => (
          <p key={each.gate_id} className="turn-decided faint">
            <Status status={each.state} words={each.decision ?? each.state} />{" "}
            <Link to={`/inbox/${encodeURIComponent(each.gate_id)}`}>
              <ForeignText text={titleOf(each)} />
            </Link>
            {each.by ? ` by ${each.by}` : ""}
          </p>
        ))}
      {gates.rows
        .filter((each) => isOpen(each.state))
        .map((each) => (
          <div key={each.gate_id} className="turn-gate">
            {each.run_id === run ? null : (
              <p className="turn-below faint">
                Asked by <ForeignText text={each.workflow} />, which works for this reply in{" "}
                <Link to={`/runs/${each.run_id}`}>
                  run <code>{shortRun(each.run_id)}</code>
                </Link>
              </p>
            )}
            <Gate id={each.gate_id} isInside />
          </div>
        ))}
    </>
  );
}
