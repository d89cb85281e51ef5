import { type ReactNode, useEffect, useId, useState } from "react";
import { read, write } from "@/api/exact";
import type { Problem } from "@/api/problem";
import { useClose } from "@/parts/Dialog";
import { Fields } from "@/parts/Fields";
import { State } from "@/parts/State";
import { check, type Schema, starting } from "@/parts/schema";
import "./Form.css";

interface Props {
  schema: Schema;
  /** What the form begins with, in the place of the schema's defaults. */
  initial?: unknown;
  /** Called with a value that fits. Types stay: a number is a number, to its last digit. */
  onSubmit: (value: unknown) => void;
  submit: string;
  isBusy?: boolean;
  problem?: Problem | null;
  /** Under which an unsent draft survives a reload and a conflict. Clear it with `forgetDraft` when it was accepted. */
  draft?: string;
  onChange?: (value: unknown) => void;
  /** The field of the request that the value is: the server's errors begin with it. */
  field?: string | undefined;
  /** More fields or buttons, before the one that submits. */
  children?: ReactNode;
}

const DRAFT = "holdfast.draft.";

export function forgetDraft(name: string): void {
  sessionStorage.removeItem(DRAFT + name);
}

function draftOf(name: string | undefined): unknown {
  const kept = name === undefined ? null : sessionStorage.getItem(DRAFT + name);
  if (kept === null) return undefined;
  try {
    return read(kept);
  } catch {
    return undefined;
  }
}

/** A pointer into a request as one into the form's value: `#/arguments/amount` is `#/amount`. */
function withinField(pointer: string, field: string | undefined): string {
  const start = `#/${field}`;
  return field !== undefined && (pointer === start || pointer.startsWith(`${start}/`))
    ? `#${pointer.slice(start.length)}`
    : pointer;
}

/** A form from a JSON schema. In a dialog it has a button that closes that. */
export function Form(props: Props) {
  const { schema, initial, onSubmit, submit, isBusy = false, problem, draft, onChange, field, children } = props;
  const id = useId();
  const cancel = useClose();
  const [value, setValue] = useState(() => draftOf(draft) ?? initial ?? starting(schema, schema));
  const [isChecked, setChecked] = useState(false);
  const errors = check(value, schema, schema);
  const shown = new Map(isChecked ? errors : []);
  for (const each of problem?.errors ?? []) {
    const pointer = withinField(each.pointer, field);
    if (!shown.has(pointer)) shown.set(pointer, each.detail);
  }

  useEffect(() => {
    if (draft !== undefined && value !== undefined) sessionStorage.setItem(DRAFT + draft, write(value));
  }, [draft, value]);

  return (
    <form
      className="form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setChecked(true);
        if (errors.size === 0 && !isBusy) onSubmit(value);
        else document.getElementById(id)?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
      }}
      id={id}
    >
      <Fields
        given={schema}
        root={schema}
        value={value}
        onChange={(next) => {
          setValue(next);
          onChange?.(next);
        }}
        pointer="#"
        errors={shown}
        name={null}
        isRequired
      />
      <State problem={problem ?? null} />
      <div className="form-foot">
        {children}
        {cancel ? (
          <button type="button" className="btn" disabled={isBusy} onClick={cancel}>
            Cancel
          </button>
        ) : null}
        <button type="submit" className="btn primary" disabled={isBusy}>
          {isBusy ? "Working…" : submit}
        </button>
      </div>
    </form>
  );
}
