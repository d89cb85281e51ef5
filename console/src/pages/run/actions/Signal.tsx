import { useId, useState } from "react";
import { read } from "@/api/exact";
import { useCommand } from "@/api/queries";
import { CommandForm } from "@/pages/run/actions/CommandForm";
import { Preview } from "@/pages/run/actions/Preview";
import { usePreview } from "@/pages/run/actions/preview";
import type { RunWhole } from "@/pages/run/tabs";
import { Dialog } from "@/parts/Dialog";
import { Json } from "@/parts/Json";

/** The form that sends a signal to a run. */
export function Signal({ run, onClose }: { run: RunWhole; onClose: () => void }) {
  const id = useId();
  const awaited = [...new Set(run.waiting_for.filter((each) => each.kind === "signal").map((each) => each.reason))];
  const [name, setName] = useState(awaited[0] ?? "");
  const [text, setText] = useState("");
  const data = parsed(text);
  const isComplete = name.trim() !== "" && data !== undefined;
  const command = useCommand("/api/v1/runs/{run}/signals/{name}");
  const preview = usePreview(
    run.run_id,
    isComplete ? { action: "signal", fields: { name: name.trim(), data: data.value ?? null } } : null,
  );
  const isReady = preview.quote?.refused === null && !command.isBusy;
  const send = async () => {
    if (!data) return;
    const answer = await command.run({
      path: { run: run.run_id, name: name.trim() },
      body: { data: data.value ?? null },
    });
    if (answer) onClose();
  };
  return (
    <Dialog isOpen onClose={onClose} title="Send a signal">
      <CommandForm
        submit="Send the signal"
        isBusy={command.isBusy}
        isReady={isReady}
        problem={command.problem}
        send={send}
        onClose={onClose}
      >
        <div className="form-field">
          <label htmlFor={id}>Name</label>
          <input
            id={id}
            className="field"
            list={`${id}-awaited`}
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
            aria-describedby={awaited.length > 0 ? `${id}-hint` : undefined}
          />
          <datalist id={`${id}-awaited`}>
            {awaited.map((each) => (
              <option key={each} value={each} />
            ))}
          </datalist>
          {awaited.length > 0 ? (
            <div className="hint" id={`${id}-hint`}>
              The run waits for {awaited.join(", ")}.
            </div>
          ) : null}
        </div>
        <div className="form-field">
          <div className="form-label">
            Data, as JSON <span className="faint">(optional)</span>
          </div>
          <Json label="data" text={text} height="30vh" onChange={setText} />
          {data === undefined ? <div className="form-error">This is no JSON.</div> : null}
        </div>
        {isComplete ? <Preview {...preview} /> : null}
      </CommandForm>
    </Dialog>
  );
}

/** Undefined for text that is no JSON. */
function parsed(text: string): { value: unknown } | undefined {
  if (text.trim() === "") return { value: null };
  try {
    return { value: read(text) };
  } catch {
    return undefined;
  }
}
