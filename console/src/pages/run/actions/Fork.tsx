import { useId, useState } from "react";
import { useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { read, write } from "@/api/exact";
import { useCommand, useRow } from "@/api/queries";
import { CommandForm } from "@/pages/run/actions/CommandForm";
import { Preview, some } from "@/pages/run/actions/Preview";
import { usePreview } from "@/pages/run/actions/preview";
import { Dialog } from "@/parts/Dialog";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
import { Json } from "@/parts/Json";
import { Money } from "@/parts/Money";
import { State } from "@/parts/State";

type Quote = Schemas["ForkQuoteRow"];
type Done = Schemas["ForkedOperationRow"];

const AMOUNT = /^\d+(\.\d{1,9})?$/;
/** A longer input is edited elsewhere. */
const MOST_TEXT = 200_000;

interface Props {
  run: string;
  /** `NODE#VISIT`, or an operation of a flow, `flow#1/3`. */
  step: string;
  onClose: () => void;
}

/** The form that forks a run from a step. It shows the server's quote with the worst case before anything is started. */
export function Fork({ run, step, onClose }: Props) {
  const first = useRow("/api/v1/runs/{run}/events/{seq}", { path: { run, seq: "1" } });
  return (
    <Dialog isOpen onClose={onClose} title={`Fork from ${step}`} isWide>
      <State isLoading={first.isLoading} problem={first.problem} again={first.again} noun="the input">
        {first.row ? <Ask run={run} step={step} onClose={onClose} input={write(first.row.input ?? null, 2)} /> : null}
      </State>
    </Dialog>
  );
}

function Ask({ run, step, onClose, input }: Props & { input: string }) {
  const id = useId();
  const [text, setText] = useState(input);
  const [output, setOutput] = useState("");
  const [limit, setLimit] = useState("");
  const [isRepeating, setRepeating] = useState(false);
  const command = useCommand("/api/v1/runs/{run}/fork");
  const navigate = useNavigate();
  const edited = parsed(text);
  const instead = output.trim() === "" ? { value: undefined } : parsed(output);
  const isAmount = limit.trim() === "" || AMOUNT.test(limit.trim());
  const body =
    edited && instead && isAmount
      ? {
          step,
          ...(text === input ? {} : { input: edited.value }),
          ...(instead.value === undefined ? {} : { output: instead.value }),
          ...(limit.trim() ? { cost_limit_usd: limit.trim() } : {}),
          ...(isRepeating ? { repeat_effects: true } : {}),
        }
      : null;
  const preview = usePreview(run, body && { action: "fork", fields: body });
  const isReady = preview.quote?.refused === null && !command.isBusy;
  const send = async () => {
    if (!body) return;
    const answer = await command.run({ path: { run }, body });
    if (answer) void navigate(`/runs/${answer.run_id}`);
  };
  return (
    <CommandForm
      submit="Start the fork"
      isBusy={command.isBusy}
      isReady={isReady}
      problem={command.problem}
      send={send}
      onClose={onClose}
    >
      <div className="form-field">
        <div className="form-label">Input of the new run</div>
        {input.length > MOST_TEXT ? (
          <p className="muted">It is too long to edit here, and stays as it is.</p>
        ) : (
          <Json label="input of the new run" text={text} height="26vh" onChange={setText} />
        )}
        {edited ? null : <div className="form-error">This is not JSON.</div>}
      </div>
      <div className="form-field">
        <div className="form-label">
          Output of the step, instead of doing it again <span className="faint">(optional)</span>
        </div>
        <Json label="output of the step" text={output} height="16vh" onChange={setOutput} />
        {instead ? null : <div className="form-error">This is not JSON.</div>}
      </div>
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
      {body ? <Preview {...preview} of={(quote) => (quote.fork ? <Answer quote={quote.fork} /> : null)} /> : null}
    </CommandForm>
  );
}

function Answer({ quote }: { quote: Quote }) {
  return (
    <Facts
      facts={[
        [
          "begins at",
          <span key="at">
            <code>{quote.begins_at}</code> {quote.why ? <ForeignText text={quote.why} /> : null}
          </span>,
        ],
        ["kept", some(quote.kept, (each) => <code>{each}</code>)],
        ["done again", some(quote.again, (each) => <code>{each}</code>)],
        ["calls again", some(quote.anew, ofCall)],
        [
          "reused",
          quote.reused.length === 0 ? null : (
            <>
              {quote.reused.length === 1 ? "1 outcome" : `${quote.reused.length.toLocaleString("en")} outcomes`} where
              the call stays the same, worth <Money usd={quote.reused_usd} />
            </>
          ),
        ],
        [
          "worst case",
          <span key="worst">
            <strong>
              <Money usd={quote.anew_usd} />
            </strong>{" "}
            <span className="faint">if nothing of the original run is reused</span>
          </span>,
        ],
        [
          "limit",
          quote.most_usd === null ? "none: other calls may cost more" : <Money key="most" usd={quote.most_usd} />,
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
      {done.why ? (
        <span className="faint">
          <ForeignText text={done.why} />
        </span>
      ) : null}
    </>
  );
}

/** Undefined for text that is no JSON. */
function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: read(text) };
  } catch {
    return undefined;
  }
}
