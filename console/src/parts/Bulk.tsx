/** A command on everything that matches, a page of the server at a time: first a dry run, then the command. Both can be stopped. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type Paths, type Schemas, send } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { unique } from "@/api/unique";
import { ActionButton } from "@/parts/Action";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import { Meter } from "@/parts/Meter";
import { State } from "@/parts/State";

type Outcome = Schemas["OutcomeRow"];

interface Props {
  /** On the button, ending in "…": "Retry all that match…". */
  label: string;
  title: string;
  /** In words: "open dead letters of workflow “order”". */
  what: string;
  /** The verb, as of one: "retry"; and what was done: "retried". */
  verb: string;
  done: string;
  path: Extract<keyof Paths, `${string}/bulk`>;
  /** The action and its filters. */
  body: Readonly<Record<string, unknown>>;
  needs: Schemas["Grant"];
  look?: "danger";
  touches: readonly (keyof Paths)[];
  isDisabled?: boolean;
}

interface Tally {
  would: number;
  refused: number;
  /** Refusals by their reason, with how many. */
  reasons: ReadonlyMap<string, number>;
  isWhole: boolean;
}

type Phase = "counting" | "asking" | "acting" | "done";

const PAGE = 200;
const NONE: Tally = { would: 0, refused: 0, reasons: new Map(), isWhole: false };

export function BulkAction(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <ActionButton
        label={props.label}
        needs={props.needs}
        look={props.look}
        isDisabled={props.isDisabled ?? false}
        onClick={() => setOpen(true)}
      />
      {isOpen ? <BulkDialog {...props} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function BulkDialog(props: Props & { onClose: () => void }) {
  const { title, what, verb, done, path, body, touches, onClose } = props;
  const all = useQueryClient();
  const [phase, setPhase] = useState<Phase>("counting");
  const [quote, setQuote] = useState(NONE);
  const [tally, setTally] = useState(NONE);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isStopped, setStopped] = useState(false);
  const stop = useRef<AbortController | null>(null);
  // The filter at the time of the click: what was counted is what is done, also if the page behind changes.
  const asked = useRef({ path, body });

  const visit = async (isDry: boolean, note: (tally: Tally) => void): Promise<boolean> => {
    const control = new AbortController();
    stop.current = control;
    setProblem(null);
    setStopped(false);
    let cursor: string | null = null;
    let found = NONE;
    do {
      const sent: Record<string, unknown> = { ...asked.current.body, limit: PAGE, dry_run: isDry };
      if (cursor !== null) sent.cursor = cursor;
      const headers = isDry ? {} : { "Idempotency-Key": unique() };
      try {
        const { data } = await send("POST", asked.current.path, { body: sent, headers });
        const page = data as { rows: Outcome[]; cursor: string | null };
        cursor = page.cursor;
        found = added(found, page.rows, cursor === null);
        note(found);
      } catch (error) {
        setProblem(asProblem(error));
        return false;
      }
    } while (cursor !== null && !control.signal.aborted);
    if (control.signal.aborted) setStopped(true);
    return true;
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: the dry run is made once, when the dialog opens
  useEffect(() => {
    let isCurrent = true;
    void visit(true, (found) => isCurrent && setQuote(found)).then((isFine) => {
      if (isCurrent && isFine) setPhase("asking");
    });
    return () => {
      isCurrent = false;
      stop.current?.abort();
    };
  }, []);

  const act = async () => {
    setPhase("acting");
    await visit(false, setTally);
    setPhase("done");
    await all.invalidateQueries({
      predicate: (query) => touches.includes(query.queryKey[0] as keyof Paths),
    });
  };

  const total = quote.would + quote.refused;
  const seen = tally.would + tally.refused;
  const isWorking = phase === "acting" || (phase === "counting" && !problem);
  return (
    <Dialog isOpen onClose={() => (phase === "acting" ? undefined : onClose())} title={title} words={`About ${what}.`}>
      {phase === "counting" ? (
        <p role="status">
          Dry run: {count(total)} looked at so far{isStopped ? ", stopped" : ""}. Nothing is changed.
        </p>
      ) : null}
      {phase === "asking" ? (
        <div>
          <p>
            <strong>
              {quote.isWhole
                ? `All ${count(total)} that match: it would ${verb} ${count(quote.would)}`
                : `Of the first ${count(total)} it would ${verb} ${count(quote.would)}, and there are more`}
              {quote.refused > 0 ? `, and leave out ${count(quote.refused)}` : ""}.
            </strong>
          </p>
          <Refusals tally={quote} />
        </div>
      ) : null}
      {phase === "acting" || phase === "done" ? (
        <div className="grid" role="status">
          <p>
            <strong>
              {count(tally.would)} {done}
            </strong>
            {tally.refused > 0 ? `, ${count(tally.refused)} refused` : ""}
            {tally.isWhole
              ? ""
              : isStopped
                ? `; stopped, the others of ${count(total)} were left alone`
                : ` of ${count(total)}`}
            .
          </p>
          {tally.isWhole ? null : (
            <Meter parts={[{ share: total === 0 ? 0 : seen / total, tone: "busy" }]} label={`${seen} of ${total}`} />
          )}
          <Refusals tally={tally} />
        </div>
      ) : null}
      <State problem={problem} />
      <div className="dialog-foot">
        {isWorking ? (
          <button type="button" className="btn" onClick={() => stop.current?.abort()}>
            Stop
          </button>
        ) : (
          <button type="button" className="btn" onClick={onClose}>
            {phase === "done" ? "Close" : "Keep them as they are"}
          </button>
        )}
        {phase === "asking" ? (
          <button
            type="button"
            className={`btn ${props.look === "danger" ? "danger" : "primary"}`}
            disabled={quote.would === 0}
            onClick={() => void act()}
          >
            {sentence(verb)} {quote.isWhole ? count(quote.would) : "all that match"}
          </button>
        ) : null}
      </div>
    </Dialog>
  );
}

const SHOWN_REASONS = 5;

function Refusals({ tally }: { tally: Tally }) {
  if (tally.refused === 0) return null;
  const reasons = [...tally.reasons].sort((one, other) => other[1] - one[1]);
  return (
    <ul className="plain-list muted">
      {reasons.slice(0, SHOWN_REASONS).map(([reason, many]) => (
        <li key={reason}>
          {count(many)}: <ForeignText text={reason} />
        </li>
      ))}
      {reasons.length > SHOWN_REASONS ? <li>and {count(reasons.length - SHOWN_REASONS)} other reasons</li> : null}
    </ul>
  );
}

function added(tally: Tally, rows: readonly Outcome[], isWhole: boolean): Tally {
  const reasons = new Map(tally.reasons);
  let { would, refused } = tally;
  for (const row of rows) {
    if (row.refused === null) would += 1;
    else {
      refused += 1;
      reasons.set(row.refused, (reasons.get(row.refused) ?? 0) + 1);
    }
  }
  return { would, refused, reasons, isWhole };
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function sentence(verb: string): string {
  return verb.charAt(0).toUpperCase() + verb.slice(1);
}
