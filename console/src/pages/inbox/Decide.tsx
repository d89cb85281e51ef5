import { type ReactNode, useId, useState } from "react";
import type { Problem } from "@/api/problem";
import { useCommand } from "@/api/queries";
import { type Draft, dataOf, isFreeAnswer } from "@/pages/inbox/data";
import { followsWords, titleOf, verbOf, type Whole } from "@/pages/inbox/words";
import { AnswerFields } from "@/parts/AnswerFields";
import { judged } from "@/parts/answer";
import { Changes } from "@/parts/Changes";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import { Material } from "@/parts/Material";
import { State } from "@/parts/State";

export interface Deciding {
  /** A decision that the gate takes, `delegate`, or `together`. */
  decision: string;
  /** Of what was on the page when it was chosen. */
  shownHash: string;
}

interface Props {
  gate: Whole;
  deciding: Deciding;
  draft: Draft | undefined;
  change: (next: Partial<Draft>) => void;
  onClose: () => void;
  onDone: () => void;
}

const TOUCHES = [
  "/api/v1/gates",
  "/api/v1/gates/{gate}",
  "/api/v1/runs",
  "/api/v1/runs/{run}",
  "/api/v1/conversations/{name}",
] as const;

/** Asks for what a decision needs, says what follows, and sends it with the hash of what was shown. */
export function Decide(props: Props) {
  if (props.deciding.decision === "delegate") return <Delegate {...props} />;
  if (props.deciding.decision === "together") return <Together {...props} />;
  return <One {...props} />;
}

function One({ gate, deciding, draft, change, onClose, onDone }: Props) {
  const { decision, shownHash } = deciding;
  const command = useCommand("/api/v1/gates/{gate}/decision", { touches: TOUCHES });
  const [wrong, setWrong] = useState<string | null>(null);
  const isReject = decision === "reject";
  const isFree = isFreeAnswer(gate, decision);
  const follows = gate.consequences.find((each) => each.decision === decision);
  const data = dataOf(gate, decision, draft);
  const send = async () => {
    let body: { decision: string; shown_hash: string; reason?: string; data?: unknown };
    const reason = draft?.reason?.trim();
    body = { decision, shown_hash: shownHash, ...(reason ? { reason } : {}) };
    if (isReject && !reason)
      return setWrong("Enter a reason. It is kept with the decision, and the workflow can read it.");
    if (isFree) {
      const given = judged(draft ?? {});
      if (!given.isRight) return setWrong(given.wrong);
      body = { ...body, data: given.data };
    } else if (data !== undefined) body = { ...body, data };
    setWrong(null);
    try {
      if ((await command.run({ path: { gate: gate.gate_id }, body })) === undefined) return;
      onDone();
    } catch (problem) {
      onRefused(problem as Problem, change, onClose);
    }
  };
  return (
    <Sheet
      title={`${decision === "edit" ? "Send this edit" : verbOf(decision, gate)}: ${titleOf(gate)}`}
      isWide={decision === "edit"}
      follows={follows ? followsWords(follows, gate.call) : null}
      confirm={decision === "edit" ? "Send the edit" : verbOf(decision, gate)}
      tone={isReject ? "danger" : "good"}
      isBusy={command.isBusy}
      problem={command.problem}
      wrong={wrong}
      onClose={onClose}
      onConfirm={send}
      focusConfirm={!isReject && !isFree}
    >
      {decision === "edit" ? <Changes before={gate.initial_data} after={data} /> : null}
      {decision !== "edit" && data !== undefined ? <Material value={data} /> : null}
      {isFree ? (
        <AnswerFields
          label={gate.call ? `Response of ${gate.call.tool}` : "Your answer"}
          value={draft ?? {}}
          change={change}
        />
      ) : null}
      <Reason draft={draft} change={change} isRequired={isReject} isFirst={isReject} />
    </Sheet>
  );
}

/** A conflict closes the dialog when the gate is decided: the page shows by whom. So does what is wrong with a field, which the
 * page marks. The draft stays. */
function onRefused(problem: Problem, change: (next: Partial<Draft>) => void, onClose: () => void): void {
  const errors = problem.errors
    .filter((each) => each.pointer.startsWith("#/data/"))
    .map((each) => [`#${each.pointer.slice("#/data".length)}`, each.detail]);
  if (errors.length > 0) change({ errors: Object.fromEntries(errors) });
  if (problem.code === "already_decided" || errors.length > 0) onClose();
}

function Delegate({ gate, onClose, draft, change }: Props) {
  const command = useCommand("/api/v1/gates/{gate}/delegate", { touches: TOUCHES });
  const [to, setTo] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const id = useId();
  const names = to.split(",").flatMap((each) => each.trim() || []);
  const send = async () => {
    if (names.length === 0) return setWrong("Enter a person, a role or a team.");
    const reason = draft?.reason?.trim();
    try {
      const sent = await command.run({
        path: { gate: gate.gate_id },
        body: { to: names, ...(reason ? { reason } : {}) },
      });
      if (sent !== undefined) onClose();
    } catch {
      setWrong(null);
    }
  };
  return (
    <Sheet
      title={`Delegate: ${titleOf(gate)}`}
      follows="The gate asks these reviewers beside the current ones. It stays open."
      confirm="Delegate"
      tone="primary"
      isBusy={command.isBusy}
      problem={command.problem}
      wrong={wrong}
      onClose={onClose}
      onConfirm={send}
    >
      <div className="form-field">
        <label htmlFor={id}>Persons, roles or teams, separated by commas</label>
        <input
          id={id}
          className="field"
          // biome-ignore lint/a11y/noAutofocus: the dialog's first field, as everywhere in dialogs
          autoFocus
          autoComplete="off"
          value={to}
          onChange={(event) => setTo(event.target.value)}
        />
      </div>
      <Reason draft={draft} change={change} />
    </Sheet>
  );
}

function Together({ gate, onClose, onDone, draft, change }: Props) {
  const asked = gate.asked_together;
  const command = useCommand("/api/v1/gates/{gate}/together", { touches: TOUCHES });
  const [rejected, setRejected] = useState<ReadonlySet<string>>(new Set());
  if (!asked) return null;
  const send = async () => {
    const reason = draft?.reason?.trim();
    const decisions = Object.fromEntries(
      asked.calls.map((each) => {
        const decision = rejected.has(each.gate_id) ? "reject" : "approve";
        return [each.gate_id, reason ? { decision, reason } : { decision }];
      }),
    );
    try {
      const sent = await command.run({
        path: { gate: gate.gate_id },
        body: { decisions, shown_hash: asked.shown_hash },
      });
      if (sent !== undefined) onDone();
    } catch (problem) {
      onRefused(problem as Problem, change, onClose);
    }
  };
  const approved = asked.calls.length - rejected.size;
  return (
    <Sheet
      title={`Decide ${asked.calls.length} calls together`}
      follows="All of these decisions take effect, or none."
      confirm={`Approve ${approved}, reject ${rejected.size}`}
      tone="good"
      isBusy={command.isBusy}
      problem={command.problem}
      wrong={null}
      onClose={onClose}
      onConfirm={send}
      isWide
    >
      {asked.calls.map((each) => (
        <section key={each.gate_id} className="gate-call">
          <label className="form-check">
            <input
              type="checkbox"
              checked={!rejected.has(each.gate_id)}
              onChange={(event) => {
                const next = new Set(rejected);
                if (event.target.checked) next.delete(each.gate_id);
                else next.add(each.gate_id);
                setRejected(next);
              }}
            />
            Approve <code>{each.tool}</code>
          </label>
          <Material value={each.arguments} />
        </section>
      ))}
      <Reason draft={draft} change={change} />
    </Sheet>
  );
}

interface ReasonProps {
  draft: Draft | undefined;
  change: (next: Partial<Draft>) => void;
  isRequired?: boolean;
  isFirst?: boolean;
}

function Reason({ draft, change, isRequired = false, isFirst = false }: ReasonProps) {
  const id = useId();
  return (
    <div className="form-field">
      <label htmlFor={id}>Reason{isRequired ? "" : <span className="faint"> (optional)</span>}</label>
      <textarea
        id={id}
        className="field gate-reason"
        // biome-ignore lint/a11y/noAutofocus: the dialog's first field, as everywhere in dialogs
        autoFocus={isFirst}
        aria-required={isRequired}
        value={draft?.reason ?? ""}
        onChange={(event) => change({ reason: event.target.value })}
      />
    </div>
  );
}

interface SheetProps {
  title: string;
  follows: string | null;
  confirm: string;
  tone: "good" | "danger" | "primary";
  isBusy: boolean;
  problem: Problem | null;
  wrong: string | null;
  isWide?: boolean;
  focusConfirm?: boolean;
  onClose: () => void;
  onConfirm: () => Promise<void>;
  children: ReactNode;
}

function Sheet(props: SheetProps) {
  const {
    title,
    follows,
    confirm,
    tone,
    isBusy,
    problem,
    wrong,
    isWide = false,
    focusConfirm = false,
    children,
  } = props;
  const isStale = problem?.isConflict ?? false;
  return (
    <Dialog
      isOpen
      onClose={() => isBusy || props.onClose()}
      title={title}
      isWide={isWide}
      {...(follows ? { words: follows } : {})}
    >
      <form
        className="form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy && !isStale) void props.onConfirm();
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
        }}
      >
        {children}
        {wrong ? (
          <p className="form-error" role="alert">
            {wrong}
          </p>
        ) : null}
        {isStale ? (
          <div className="gate-note" data-kind="conflict" role="alert">
            <p>
              <strong>The gate has changed since you opened this.</strong> Nothing was decided, and your draft is kept.
            </p>
            <p>
              <ForeignText text={problem?.detail ?? ""} />
            </p>
          </div>
        ) : (
          <State problem={problem} />
        )}
        <div className="dialog-foot">
          <button type="button" className="btn" disabled={isBusy} onClick={props.onClose}>
            {isStale ? "Read it again" : "Back"}
          </button>
          {isStale ? null : (
            <button
              type="submit"
              className={`btn ${tone}`}
              disabled={isBusy}
              // biome-ignore lint/a11y/noAutofocus: Enter confirms what the dialog says
              autoFocus={focusConfirm}
            >
              {isBusy ? "Sending…" : confirm}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
