import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { useCaller } from "@/api/caller";
import { useRow } from "@/api/queries";
import { ActingForm } from "@/pages/inbox/ActingAs";
import { Decide, type Deciding } from "@/pages/inbox/Decide";
import { Decided } from "@/pages/inbox/Decided";
import { type Draft, inOrder, openFields, schemaOf, withOnly, wrongIn } from "@/pages/inbox/data";
import { GateFacts } from "@/pages/inbox/GateFacts";
import {
  followsWords,
  policyWords,
  raisesLimit,
  reasonWords,
  saidElsewhere,
  titleOf,
  undoWords,
  verbOf,
  type Whole,
} from "@/pages/inbox/words";
import { parts } from "@/parts/amount";
import { useDraft } from "@/parts/draft";
import { Fields } from "@/parts/Fields";
import { useKeys } from "@/parts/keys";
import { Material } from "@/parts/Material";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { isObject } from "@/parts/schema";
import { Time } from "@/parts/Time";
import "@/parts/Form.css";
import "./Gate.css";

interface Props {
  id: string;
  /** In another page, like a conversation: no keys, and only what is needed to decide. */
  isInside?: boolean;
  /** Above the title. */
  above?: ReactNode;
  onDecided?: () => void;
}

/** Events of its run come by the stream; only a deadline passes without one. */
const EVERY_MS = 30_000;

/** A gate: what is asked, what follows, and the decision. */
export function Gate({ id, isInside = false, above, onDecided }: Props) {
  const gate = useRow("/api/v1/gates/{gate}", { path: { gate: id } }, { every: EVERY_MS });
  return (
    <State isLoading={gate.isLoading} problem={gate.problem} again={gate.again} noun="the gate">
      {gate.row ? <Loaded key={id} gate={gate.row} isInside={isInside} above={above} onDecided={onDecided} /> : null}
    </State>
  );
}

interface LoadedProps {
  gate: Whole;
  isInside: boolean;
  above: ReactNode;
  onDecided: (() => void) | undefined;
}

function Loaded({ gate, isInside, above, onDecided }: LoadedProps) {
  const caller = useCaller();
  const [draft, setDraft] = useDraft<Draft>(`gate.${gate.gate_id}`);
  const [deciding, setDeciding] = useState<Deciding | null>(null);
  const [seen, setSeen] = useState(gate.shown_hash);
  const form = useRef<HTMLDivElement>(null);
  const isOpen = gate.state === "open" || gate.state === "escalated";
  const hasChanged = isOpen && gate.shown_hash !== seen;
  const mayDecide = isOpen && gate.refusal === null && !hasChanged;
  const canEdit = gate.allowed.includes("edit") && gate.form !== null;
  const isEditing = canEdit && (draft?.isEditing ?? false);
  const change = (next: Partial<Draft>) => setDraft({ ...draft, ...next });
  const edit = () => {
    change({ isEditing: !isEditing });
    if (!isEditing) requestAnimationFrame(() => form.current?.querySelector<HTMLElement>(".field")?.focus());
  };
  const decide = (decision: string) => {
    if (!mayDecide) return;
    const wrong = wrongIn(gate, decision, draft);
    const open = () => setDeciding({ decision, shownHash: gate.shown_hash });
    if (wrong.size === 0) return open();
    change({ errors: Object.fromEntries(wrong) });
    // What is wrong in data that the page does not let one change, the server judges.
    requestAnimationFrame(() => focusWrong(form.current) || open());
  };
  return (
    <article className="gate" data-inside={isInside} aria-label={titleOf(gate)}>
      {isInside ? null : (
        <Keys
          canEdit={mayDecide && canEdit}
          allowed={mayDecide ? gate.allowed : []}
          edit={edit}
          decide={(decision) => decide(decision === "approve" && isEditing ? "edit" : decision)}
        />
      )}
      <header className="gate-head">
        {above}
        <h2>{titleOf(gate)}</h2>
        <Badges gate={gate} />
      </header>
      <div className="gate-body">
        <div className="gate-main">
          {hasChanged ? (
            <div className="gate-note" role="status">
              <p>
                This gate shows something else than when you opened it
                {gate.edited_by ? `: ${gate.edited_by} edited it` : ""}. Read it again before you decide.
              </p>
              <button type="button" className="btn" onClick={() => setSeen(gate.shown_hash)}>
                I have read it
              </button>
            </div>
          ) : null}
          {isOpen ? null : (
            <Decided gate={gate} me={caller?.name ?? null} draft={draft} forget={() => setDraft(undefined)} />
          )}
          {isOpen ? <WhatFollows gate={gate} /> : null}
          <div ref={form}>
            <Data gate={gate} draft={draft} change={change} isEditing={isEditing} isOpen={isOpen} />
          </div>
          <Shown gate={gate} />
          {isOpen && gate.asked_together ? <Together gate={gate} decide={decide} mayDecide={mayDecide} /> : null}
          {isOpen ? (
            <DecisionBar
              gate={gate}
              isEditing={isEditing}
              canEdit={canEdit}
              mayDecide={mayDecide}
              edit={edit}
              decide={decide}
              stop={() => setDraft(draft?.reason ? { reason: draft.reason } : undefined)}
            />
          ) : null}
        </div>
        {isInside ? null : <GateFacts gate={gate} />}
      </div>
      {deciding ? (
        <Decide
          gate={gate}
          deciding={deciding}
          draft={draft}
          change={change}
          onClose={() => setDeciding(null)}
          onDone={() => {
            setDraft(undefined);
            setDeciding(null);
            onDecided?.();
          }}
        />
      ) : null}
    </article>
  );
}

/** Go to the first field that is marked as wrong; a value in JSON has its editor in one. False if there is none. */
function focusWrong(form: HTMLElement | null): boolean {
  const field = form?.querySelector(".form-error")?.closest(".form-field, fieldset");
  field?.querySelector<HTMLElement>("input, select, textarea, [contenteditable=true], button")?.focus();
  return Boolean(field);
}

function Keys(props: { canEdit: boolean; allowed: string[]; edit: () => void; decide: (decision: string) => void }) {
  const { canEdit, allowed, edit, decide } = props;
  useKeys([
    ...(allowed.includes("approve") ? [{ key: "a", words: "Approve", run: () => decide("approve") }] : []),
    ...(canEdit ? [{ key: "e", words: "Edit", run: edit }] : []),
    ...(allowed.includes("reject") ? [{ key: "r", words: "Reject", run: () => decide("reject") }] : []),
  ]);
  return null;
}

function Badges({ gate }: { gate: Whole }) {
  return (
    <div className="line">
      {gate.risk_level ? (
        <Status status={gate.risk_level} words={`${gate.risk_level} risk`} tone={RISKS[gate.risk_level]} />
      ) : null}
      {gate.state === "open" || gate.state === "escalated" ? (
        <span className="muted">
          {gate.due_at ? (
            <>
              {gate.state === "escalated" ? "was due" : "due"} <Time at={gate.due_at} />
            </>
          ) : (
            <>
              asked <Time at={gate.opened_at} />
            </>
          )}
        </span>
      ) : (
        <Status status={gate.decision === "reject" ? "rejected" : gate.state} words={gate.decision ?? gate.state} />
      )}
      <span className="faint">{reasonWords(gate.reason)}</span>
    </div>
  );
}

const RISKS = { low: "idle", medium: "wait", high: "bad", critical: "bad" } as const;

/** What the server says that an approval does, with the call and its cost. */
function WhatFollows({ gate }: { gate: Whole }) {
  const { call } = gate;
  const first = gate.consequences.find((each) => each.decision === "approve") ?? gate.consequences[0];
  if (!first && !call) return null;
  return (
    <section className="gate-follows" aria-label="What follows">
      {first ? (
        <p>
          <strong>
            {first.decision === "approve" ? "If you approve" : `If you choose “${verbOf(first.decision, gate)}”`}
          </strong>{" "}
          {followsWords(first, call)}
        </p>
      ) : null}
      {call ? (
        <dl className="kv">
          <dt>Effect</dt>
          <dd>{policyWords(call)}</dd>
          <dt>Undo</dt>
          <dd>{undoWords(call)}</dd>
        </dl>
      ) : null}
      {raisesLimit(gate) ? null : <p className="muted">{costWords(gate)}</p>}
    </section>
  );
}

function costWords(gate: Whole): string {
  const price = gate.call?.price_usd;
  const own =
    price && parts(price).whole + parts(price).fraction !== "$0" ? `The call costs at most ${money(price)}. ` : "";
  if (gate.spendable_usd === null) return `${own}The run has no cost limit, so the most that follows is unknown.`;
  return `${own}Afterwards the run can spend at most ${money(gate.spendable_usd)} more.`;
}

function money(usd: string): string {
  const { whole, fraction } = parts(usd);
  return `${whole}${fraction}`;
}

interface DataProps {
  gate: Whole;
  draft: Draft | undefined;
  change: (next: Partial<Draft>) => void;
  isEditing: boolean;
  isOpen: boolean;
}

/** The data of the decision: read, filled in where the gate leaves fields open, or edited. */
function Data({ gate, draft, change, isEditing, isOpen }: DataProps) {
  const schema = schemaOf(gate);
  const filled = gate.initial_data;
  const errors = draft?.errors ? new Map(Object.entries(draft.errors)) : new Map<string, string>();
  if (isOpen && schema && (isEditing || !gate.allowed.includes("approve"))) {
    return (
      <section className="gate-data" aria-label="Data of the decision">
        <h3>{isEditing ? "Your edit" : "Your answer"}</h3>
        <div className="form">
          <Fields
            given={schema}
            root={schema}
            value={draft?.value ?? filled}
            onChange={(value) => change({ value, errors: undefined })}
            pointer="#"
            errors={errors}
            name={null}
            isRequired
          />
        </div>
      </section>
    );
  }
  const open = isOpen && schema ? openFields(schema, filled) : [];
  const hasFilled = isObject(filled) ? Object.keys(filled).length > 0 : filled !== null && filled !== undefined;
  if (!hasFilled && open.length === 0) return null;
  const tool = gate.call?.tool;
  return (
    <section className="gate-data" aria-label="Data of the decision">
      <h3>{tool ? <code>{tool}</code> : "What you approve"}</h3>
      {hasFilled ? <Material value={inOrder(filled, schema)} /> : null}
      {open.length > 0 && schema ? (
        <div className="form">
          <Fields
            given={withOnly(schema, open)}
            root={schema}
            value={draft?.value ?? {}}
            onChange={(value) => change({ value, errors: undefined })}
            pointer="#"
            errors={errors}
            name={null}
            isRequired
          />
        </div>
      ) : null}
    </section>
  );
}

function Shown({ gate }: { gate: Whole }) {
  const without = saidElsewhere(gate);
  const isNothing =
    gate.shown === null || (isObject(gate.shown) && Object.keys(gate.shown).every((each) => without.includes(each)));
  if (isNothing) return null;
  return (
    <section className="gate-shown" aria-label="What the workflow shows">
      <Material value={gate.shown} without={without} />
    </section>
  );
}

function Together({
  gate,
  decide,
  mayDecide,
}: {
  gate: Whole;
  decide: (decision: string) => void;
  mayDecide: boolean;
}) {
  const calls = gate.asked_together?.calls ?? [];
  return (
    <section className="gate-together" aria-label="Asked together">
      <p>
        The step asks about {calls.length} calls at the same time:{" "}
        {calls.map((each, index) => (
          <span key={each.gate_id}>
            {index > 0 ? ", " : null}
            {each.gate_id === gate.gate_id ? (
              <strong>{each.tool} (this one)</strong>
            ) : (
              <Link to={`/inbox/${encodeURIComponent(each.gate_id)}`}>{each.tool}</Link>
            )}
          </span>
        ))}
        .
      </p>
      <button type="button" className="btn" disabled={!mayDecide} onClick={() => decide("together")}>
        Decide all {calls.length}…
      </button>
    </section>
  );
}

interface BarProps {
  gate: Whole;
  isEditing: boolean;
  canEdit: boolean;
  mayDecide: boolean;
  edit: () => void;
  stop: () => void;
  decide: (decision: string) => void;
}

/** True if an answer would be the same as an edit: both bring the data of the form. */
function isSame(gate: Whole): boolean {
  return gate.allowed.includes("edit") && gate.form !== null && gate.reason !== "tool_approval";
}

/** Why you may not decide it. A server that takes your word asks you who you are, here. */
function Refusal({ gate }: { gate: Whole }) {
  const caller = useCaller();
  if (!gate.refusal) return null;
  const mine = [caller?.name, ...(caller?.roles ?? [])];
  const isStranger = gate.reviewers.length > 0 && !gate.reviewers.some((each) => mine.includes(each));
  if (caller && !caller.verified && isStranger) {
    return <ActingForm key={mine.join()} reviewers={gate.reviewers} />;
  }
  return (
    <p className="gate-refusal" role="note">
      {gate.refusal}
    </p>
  );
}

/** The decisions, at the lower edge: a telephone's thumb reaches them, and long material does not push them away. */
function DecisionBar({ gate, isEditing, canEdit, mayDecide, edit, stop, decide }: BarProps) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isEditing) bar.current?.scrollIntoView({ block: "nearest" });
  }, [isEditing]);
  const others = gate.allowed.filter(
    (each) => !["approve", "edit", "reject", ...(isSame(gate) ? ["answer"] : [])].includes(each),
  );
  return (
    <footer className="gate-bar" ref={bar}>
      <Refusal gate={gate} />
      {gate.allowed.length === 0 ? (
        <p className="muted">It takes no decision: it closes when what it waits for is done.</p>
      ) : null}
      <div className="line">
        {isEditing ? (
          <>
            <button type="button" className="btn good" disabled={!mayDecide} onClick={() => decide("edit")}>
              Review the edit…
            </button>
            <button type="button" className="btn" onClick={stop}>
              Discard the edit
            </button>
          </>
        ) : (
          <>
            {gate.allowed.includes("approve") ? (
              <button type="button" className="btn good" disabled={!mayDecide} onClick={() => decide("approve")}>
                Approve…
              </button>
            ) : null}
            {others.map((each) => (
              <button key={each} type="button" className="btn" disabled={!mayDecide} onClick={() => decide(each)}>
                {verbOf(each, gate)}…
              </button>
            ))}
            {canEdit ? (
              <button type="button" className="btn" disabled={!mayDecide} onClick={edit}>
                Edit
              </button>
            ) : null}
          </>
        )}
        {gate.allowed.includes("reject") && !isEditing ? (
          <button type="button" className="btn danger" disabled={!mayDecide} onClick={() => decide("reject")}>
            {verbOf("reject", gate)}…
          </button>
        ) : null}
        {gate.allowed.length > 0 && !isEditing ? (
          <button type="button" className="btn quiet" disabled={!mayDecide} onClick={() => decide("delegate")}>
            Delegate…
          </button>
        ) : null}
      </div>
    </footer>
  );
}
