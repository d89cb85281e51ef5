import { useId, useState } from "react";
import type { Schemas } from "@/api/client";
import { useCommand } from "@/api/queries";
import { CommandForm } from "@/pages/run/actions/CommandForm";
import { Preview } from "@/pages/run/actions/Preview";
import { type Asked, usePreview } from "@/pages/run/actions/preview";
import type { RunWhole } from "@/pages/run/tabs";
import { Dialog } from "@/parts/Dialog";
import { Money } from "@/parts/Money";

type Limit = "cost" | Schemas["ExtendableLimit"];

const WORDS: Record<Limit, string> = {
  cost: "Cost, in dollars",
  tokens: "Tokens",
  model_calls: "Model calls",
  tool_calls: "Tool calls",
  steps: "Steps",
  active: "Working time, in seconds",
  wall: "Time since the start, in seconds",
  lifespan: "Lifespan, in seconds",
};
const LIMITS = Object.keys(WORDS) as Limit[];
const IN_SECONDS: ReadonlySet<Limit> = new Set<Limit>(["active", "wall", "lifespan"]);
const AMOUNT = /^\d+(\.\d{1,9})?$/;

/** The form that raises one limit of a run. */
export function Extend({ run, onClose }: { run: RunWhole; onClose: () => void }) {
  const id = useId();
  const [limit, setLimit] = useState<Limit>(() => tightest(run));
  const [text, setText] = useState("");
  const value = text.trim();
  const isRight = limit === "cost" ? AMOUNT.test(value) : /^\d+(\.\d+)?$/.test(value);
  const budget = useCommand("/api/v1/runs/{run}/budget");
  const extend = useCommand("/api/v1/runs/{run}/extend");
  const command = limit === "cost" ? budget : extend;
  const preview = usePreview(run.run_id, isRight ? askedOf(limit, value) : null);
  const isReady = preview.quote?.refused === null && !command.isBusy;
  const send = async () => {
    const path = { run: run.run_id };
    const answer =
      limit === "cost"
        ? await budget.run({ path, body: { limit_usd: value } })
        : await extend.run({ path, body: { limit, value: Number(value) } });
    if (answer) onClose();
  };
  return (
    <Dialog isOpen onClose={onClose} title="Raise a limit of this run">
      <CommandForm
        submit="Raise the limit"
        isBusy={command.isBusy}
        isReady={isReady}
        problem={command.problem}
        send={send}
        onClose={onClose}
      >
        <div className="form-field">
          <label htmlFor={`${id}-limit`}>Limit</label>
          <select
            id={`${id}-limit`}
            className="field"
            value={limit}
            onChange={(event) => {
              setLimit(event.target.value as Limit);
              setText("");
            }}
          >
            {LIMITS.map((each) => (
              <option key={each} value={each}>
                {WORDS[each]}
              </option>
            ))}
          </select>
        </div>
        <div className="form-field">
          <label htmlFor={id}>New limit</label>
          <input
            id={id}
            className="field"
            inputMode="decimal"
            autoComplete="off"
            value={text}
            aria-invalid={value !== "" && !isRight}
            aria-describedby={`${id}-now`}
            onChange={(event) => setText(event.target.value)}
          />
          <div className="hint" id={`${id}-now`}>
            <Now run={run} limit={limit} />
          </div>
          {value !== "" && !isRight ? <div className="form-error">Write a number, like 20 or 0.50.</div> : null}
        </div>
        {isRight ? <Preview {...preview} /> : null}
      </CommandForm>
    </Dialog>
  );
}

function askedOf(limit: Limit, value: string): Asked {
  if (limit === "cost") return { action: "raise_budget", fields: { limit_usd: value } };
  return { action: "extend", fields: { limit, value: Number(value) } };
}

/** The limit of which the largest part is used. */
function tightest(run: RunWhole): Limit {
  const known = run.limits.filter((each) => LIMITS.includes(each.limit as Limit));
  const first = [...known].sort((left, right) => right.percent - left.percent)[0];
  return (first?.limit as Limit | undefined) ?? "cost";
}

function Now({ run, limit }: { run: RunWhole; limit: Limit }) {
  if (limit === "cost") {
    return run.limit_usd === null ? (
      "The run has no cost limit."
    ) : (
      <>
        Now <Money usd={run.limit_usd} />, of which <Money usd={run.cost_usd} /> is spent.
      </>
    );
  }
  const found = run.limits.find((each) => each.limit === limit);
  if (!found) return "The run has no such limit of its own.";
  const unit = IN_SECONDS.has(limit) ? 1_000 : 1;
  const words = (value: number) => (value / unit).toLocaleString("en", { maximumFractionDigits: 1 });
  return (
    <>
      Now {words(found.most)}, of which {words(found.used)} is used.
    </>
  );
}
