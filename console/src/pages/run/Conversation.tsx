import { useEffect, useMemo, useRef } from "react";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { write } from "@/api/exact";
import { useList } from "@/api/queries";
import { useEverything } from "@/pages/run/everything";
import type { TabProps } from "@/pages/run/tabs";
import { useAddress } from "@/parts/address";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { Payload } from "@/parts/payload/Payload";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { Duration, Time } from "@/parts/Time";
import { replyOf, textOf } from "./reply";

type Call = Schemas["ModelCallRow"];
type Turn = Schemas["KeptTurnRow"];
const PAGE = 50;
const LONG = 4_000;

/** What models were asked and what they answered, as a conversation. */
export default function Conversation({ run }: TabProps) {
  const list = useEverything(
    useList("/api/v1/runs/{run}/calls", { path: { run: run.run_id }, query: { limit: PAGE } }),
  );
  const [chosen] = useAddress("call");
  const box = useRef<HTMLDivElement>(null);
  const isThere = list.rows.some((row) => row.call === chosen);
  useEffect(() => {
    if (isThere) box.current?.querySelector(`[data-call="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "start" });
  }, [isThere, chosen]);
  const shown = useMemo(() => talks(list.rows), [list.rows]);
  return (
    <State
      isLoading={list.isLoading}
      problem={list.problem}
      again={list.again}
      isEmpty={list.rows.length === 0}
      noun="model calls"
      hint="This run has not called a model."
    >
      <div className="talk" ref={box}>
        {shown.map(({ call, isNew }) => (
          <CallView key={call.call} call={call} isNew={isNew} isChosen={call.call === chosen} />
        ))}
      </div>
    </State>
  );
}

/** Calls in their order. One that does not go on from an earlier one begins a conversation. */
function talks(rows: readonly Call[]): { call: Call; isNew: boolean }[] {
  return rows.map((call) => ({ call, isNew: call.after === null }));
}

function CallView({ call, isNew, isChosen }: { call: Call; isNew: boolean; isChosen: boolean }) {
  const request = call.request;
  const reply = replyOf(call.reply);
  return (
    <section
      className="talk-call"
      data-call={call.call}
      data-chosen={isChosen ? "" : undefined}
      aria-label={`Call ${call.call}`}
    >
      {isNew ? (
        <h2 className="talk-begin">
          Conversation of <Link to={`?step=${encodeURIComponent(`${call.step}:${call.path}`)}`}>{call.step}</Link>
          {call.agent ? <span className="faint"> as {call.agent}</span> : null}
        </h2>
      ) : null}
      {request === null ? (
        <p className="faint talk-hash">The request was not kept; only its hash is (setting keep_requests).</p>
      ) : (
        <>
          {request.system ? <Said who="System" text={request.system} isFolded={!isNew} /> : null}
          {request.tools && request.tools.length > 0 ? (
            <details className="talk-tools">
              <summary>May call {request.tools.map((tool) => tool.name).join(", ")}</summary>
              <Payload given={{ text: write(request.tools) }} label="the tools" height="30vh" />
            </details>
          ) : null}
          {(request.turns ?? []).map((turn, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: turns have no other identity, and never move
            <TurnView key={index} turn={turn} />
          ))}
        </>
      )}
      <article className="talk-said" data-who="model">
        <header>
          <strong>{call.model}</strong>
          {call.status === "completed" ? null : <Status status={call.status} />}
          <span className="faint num">
            {call.input_tokens.toLocaleString("en")} in, {call.output_tokens.toLocaleString("en")} out ·{" "}
            <Money usd={call.cost_usd} /> · <Duration from={call.at} to={call.ended_at} />
          </span>
          <span className="faint right">
            <Time at={call.at} kind="clock" />
          </span>
        </header>
        {reply?.thinking ? (
          <details>
            <summary className="faint">Thinking</summary>
            <Long text={reply.thinking} />
          </details>
        ) : null}
        {reply?.text ? <Long text={reply.text} /> : null}
        {reply?.asked.map((each) => (
          <Asked key={each.id} name={each.name} text={each.arguments} />
        ))}
        {call.error ? (
          <p className="talk-error">
            {call.error.error_class.replaceAll("_", " ")}: <ForeignText text={call.error.message} />
          </p>
        ) : null}
        {!reply && !call.error ? (
          <p className="faint">{call.status === "running" ? "answering…" : "no answer was kept"}</p>
        ) : null}
      </article>
    </section>
  );
}

function TurnView({ turn }: { turn: Turn }) {
  if (turn.type === "tools") {
    const replies = Array.isArray(turn.replies) ? (turn.replies as Record<string, unknown>[]) : [];
    return replies.map((each, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: replies have no other identity, and never move
      <article key={index} className="talk-said" data-who="tool">
        <header>
          <strong>{String(each.name ?? "tool")}</strong> <span className="faint">answered</span>
        </header>
        <Long text={textOf(each.content)} />
      </article>
    ));
  }
  // An earlier reply stands above already, with the call that brought it.
  if (turn.type === "model") return null;
  return (
    <>
      {turn.text ? <Said who="User" text={turn.text} /> : null}
      {turn.parts ? (
        <article className="talk-said" data-who="user">
          <header>
            <strong>User</strong> <span className="faint">with content</span>
          </header>
          <Payload given={{ text: write(turn.parts) }} label="the content" height="30vh" />
        </article>
      ) : null}
    </>
  );
}

function Said({ who, text, isFolded = false }: { who: "System" | "User"; text: string; isFolded?: boolean }) {
  return (
    <article className="talk-said" data-who={who.toLowerCase()}>
      {isFolded ? (
        <details>
          <summary>
            <strong>{who}</strong>
          </summary>
          <Long text={text} />
        </details>
      ) : (
        <>
          <header>
            <strong>{who}</strong>
          </header>
          <Long text={text} />
        </>
      )}
    </article>
  );
}

function Asked({ name, text }: { name: string; text: string }) {
  return (
    <div className="talk-asked">
      <span className="faint">{name === "final_result" ? "answers with" : "calls"}</span> <code>{name}</code>
      <Payload given={{ text: text || "null" }} label={`arguments of ${name}`} height="30vh" />
    </div>
  );
}

function Long({ text }: { text: string }) {
  if (text.length <= LONG) {
    return (
      <div className="talk-text">
        <ForeignText text={text} />
      </div>
    );
  }
  return (
    <div className="talk-text">
      <ForeignText text={text.slice(0, LONG)} />
      <details>
        <summary className="faint">{(text.length - LONG).toLocaleString("en")} more characters</summary>
        <ForeignText text={text.slice(LONG)} />
      </details>
    </div>
  );
}
