import { useEffect, useId, useState } from "react";
import { useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { write } from "@/api/exact";
import { useCommand, useList, useRow } from "@/api/queries";
import { CommandForm } from "@/pages/run/actions/CommandForm";
import { ForkInput, isSendable } from "@/pages/run/actions/ForkInput";
import { type Edit, ForkOutput } from "@/pages/run/actions/ForkOutput";
import { Preview, some } from "@/pages/run/actions/Preview";
import { usePreview } from "@/pages/run/actions/preview";
import type { RunWhole } from "@/pages/run/tabs";
import { Changes } from "@/parts/Changes";
import { Dialog } from "@/parts/Dialog";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { State } from "@/parts/State";
import type { Schema } from "@/parts/schema";

type Quote = Schemas["ForkQuoteRow"];
type Done = Schemas["ForkedOperationRow"];

const AMOUNT = /^\d+(\.\d{1,9})?$/;
const MAX_ATTEMPTS = 1_000;

interface Props {
  run: RunWhole;
  /** `NODE#VISIT`, or an operation of a flow, `flow#1/3`. */
  step: string;
  /** Number of the event that has what the step came to, if it came to something. */
  ended: number | null;
  onClose: () => void;
}

/** The form that forks a run from a step. It shows the server's quote with the worst case before anything is started. */
export function Fork({ run, step, ended, onClose }: Props) {
  const first = useRow("/api/v1/runs/{run}/events/{seq}", { path: { run: run.run_id, seq: "1" } });
  // Without it the input is JSON.
  const workflow = useRow("/api/v1/workflows/{name}", {
    path: { name: run.workflow },
    query: { version: run.version },
  });
  const isLoading = first.isLoading || workflow.isLoading;
  return (
    <Dialog isOpen onClose={onClose} title={`Fork from ${step}`} isWide>
      <State isLoading={isLoading} problem={first.problem} again={first.again} noun="the input">
        {first.row && !isLoading ? (
          <Ask
            {...{ run, step, ended, onClose }}
            initial={first.row.input ?? null}
            schema={(workflow.row?.input_schema ?? null) as Schema | null}
          />
        ) : null}
      </State>
    </Dialog>
  );
}

function Ask({ run, step, ended, onClose, initial, schema }: Props & { initial: unknown; schema: Schema | null }) {
  const id = useId();
  const [input, setInput] = useState(initial);
  const [outputs, setOutputs] = useState<Readonly<Record<string, Edit | undefined>>>({});
  const [isReplacing, setReplacing] = useState(false);
  const [output, setOutput] = useState<Edit>();
  const [limit, setLimit] = useState("");
  const [isRepeating, setRepeating] = useState(false);
  const command = useCommand("/api/v1/runs/{run}/fork");
  const navigate = useNavigate();
  const isAmount = limit.trim() === "" || AMOUNT.test(limit.trim());
  const edits = Object.entries(outputs).flatMap(([name, edit]) =>
    edit && isEdited(edit) ? [[name, edit] as const] : [],
  );
  const isWhole = [input, output?.after, ...edits.map(([, edit]) => edit.after)].every(
    (each) => each === undefined || isSendable(each, null),
  );
  const isInputEdited = isEdited({ before: initial, after: input });
  const body =
    isWhole && isAmount && input !== undefined
      ? {
          step,
          ...(isInputEdited ? { input } : {}),
          ...(edits.length > 0
            ? { state: Object.fromEntries(edits.map(([name, edit]) => [nodeOf(name), edit.after])) }
            : {}),
          ...(isReplacing && output ? { output: output.after } : {}),
          ...(limit.trim() ? { cost_limit_usd: limit.trim() } : {}),
          ...(isRepeating ? { repeat_effects: true } : {}),
        }
      : null;
  const preview = usePreview(run.run_id, body && { action: "fork", fields: body });
  const isReady =
    preview.quote?.refused === null && !command.isBusy && isSendable(input, isInputEdited ? schema : null);
  const kept = preview.quote?.fork?.kept_steps;
  const [earlier, setEarlier] = useState<readonly string[]>([]);
  useEffect(() => kept && setEarlier(kept.filter((each) => !each.includes("["))), [kept]);
  const send = async () => {
    if (!body) return;
    const answer = await command.run({ path: { run: run.run_id }, body });
    if (answer) void navigate(`/runs/${answer.run_id}`);
  };
  const before = { input: initial, ...Object.fromEntries(edits.map(([name, edit]) => [name, edit.before])) };
  const after = { input, ...Object.fromEntries(edits.map(([name, edit]) => [name, edit.after])) };
  return (
    <CommandForm
      submit="Start the fork"
      isBusy={command.isBusy}
      isReady={isReady}
      problem={command.problem}
      send={send}
      onClose={onClose}
    >
      <ForkInput schema={schema} initial={initial} length={write(initial).length} value={input} onChange={setInput} />
      <EarlierOutputs run={run.run_id} steps={earlier} edits={outputs} onChange={setOutputs} />
      <label className="form-check">
        <input type="checkbox" checked={isReplacing} onChange={(event) => setReplacing(event.target.checked)} />
        Do not do {step} again: give it an output
      </label>
      {isReplacing ? (
        <ForkOutput
          run={run.run_id}
          title={`Output of ${step}`}
          seq={ended}
          edit={output}
          onEdit={(edit) => {
            setOutput(edit);
            if (!edit) setReplacing(false);
          }}
        />
      ) : null}
      <div className="form-field">
        <label htmlFor={id}>
          Cost limit, in dollars <span className="faint">(optional)</span>
        </label>
        <input
          id={id}
          className="field"
          inputMode="decimal"
          autoComplete="off"
          value={limit}
          aria-invalid={!isAmount}
          onChange={(event) => setLimit(event.target.value)}
        />
        {isAmount ? null : <div className="form-error">Write an amount, like 0.50.</div>}
      </div>
      <label className="form-check">
        <input type="checkbox" checked={isRepeating} onChange={(event) => setRepeating(event.target.checked)} />
        Call once-only tools again without asking a person
      </label>
      {isInputEdited || edits.length > 0 ? <Changes before={before} after={after} /> : null}
      {body ? <Preview {...preview} of={(quote) => (quote.fork ? <Answer quote={quote.fork} /> : null)} /> : null}
    </CommandForm>
  );
}

interface EarlierProps {
  run: string;
  /** Steps that the fork keeps. */
  steps: readonly string[];
  edits: Readonly<Record<string, Edit | undefined>>;
  onChange: (edits: Readonly<Record<string, Edit | undefined>>) => void;
}

/** Outputs of steps before the fork, which are the input of the step that it begins with. */
function EarlierOutputs({ run, steps, edits, onChange }: EarlierProps) {
  const attempts = useList("/api/v1/runs/{run}/attempts", { path: { run }, query: { limit: MAX_ATTEMPTS } });
  const ended = new Map(attempts.rows.map((each) => [each.step, each.status === "completed" ? each.ended_seq : null]));
  const chosen = Object.keys(edits);
  const left = steps.filter((each) => !chosen.includes(each) && ended.get(each));
  return (
    <>
      {chosen.map((each) => (
        <ForkOutput
          key={each}
          run={run}
          title={`Output of ${each}`}
          seq={ended.get(each) ?? null}
          edit={edits[each]}
          onEdit={(edit) => {
            const { [each]: _, ...others } = edits;
            onChange(edit ? { ...edits, [each]: edit } : others);
          }}
        />
      ))}
      {left.length > 0 ? (
        <select
          className="field"
          aria-label="Edit the output of an earlier step"
          value=""
          onChange={(event) => onChange({ ...edits, [event.target.value]: undefined })}
        >
          <option value="">Edit the output of an earlier step…</option>
          {left.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      ) : null}
    </>
  );
}

function isEdited({ before, after }: Edit): boolean {
  return write(before) !== write(after);
}

function nodeOf(step: string): string {
  return step.replace(/#\d+$/, "");
}

function Answer({ quote }: { quote: Quote }) {
  return (
    <Facts
      facts={[
        [
          "begins at",
          <span key="at">
            <code>{quote.begins_at}</code> {quote.reason ? <ForeignText text={quote.reason} /> : null}
          </span>,
        ],
        ["kept", some(quote.kept_steps, (each) => <code>{each}</code>)],
        ["done again", some(quote.repeated_steps, (each) => <code>{each}</code>)],
        ["calls again", some(quote.repeated_operations, ofCall)],
        [
          "reused",
          quote.reused_operations.length === 0 ? null : (
            <>
              {quote.reused_operations.length === 1
                ? "1 outcome"
                : `${quote.reused_operations.length.toLocaleString("en")} outcomes`}{" "}
              where the call stays the same, worth <Money usd={quote.reused_usd} />
            </>
          ),
        ],
        [
          "worst case",
          <span key="worst">
            <strong>
              <Money usd={quote.worst_case_usd} />
            </strong>{" "}
            <span className="faint">if nothing of the original run is reused</span>
          </span>,
        ],
        [
          "limit",
          quote.limit_usd === null ? "none: other calls may cost more" : <Money key="limit" usd={quote.limit_usd} />,
        ],
      ]}
    />
  );
}

function ofCall(done: Done) {
  return (
    <>
      <code>
        <ForeignText text={done.name} />
      </code>{" "}
      {done.reason ? (
        <span className="faint">
          <ForeignText text={done.reason} />
        </span>
      ) : null}
    </>
  );
}
