import { useState } from "react";
import { Fields } from "@/parts/Fields";
import { check, type Schema } from "@/parts/schema";

const MOST_CHARACTERS = 200_000;
const TITLE = "Input of the new run";

interface Props {
  /** Of the workflow's input; null where it declares none. */
  schema: Schema | null;
  /** The input of the original run, and its length as JSON. */
  initial: unknown;
  length: number;
  value: unknown;
  onChange: (value: unknown) => void;
}

/** The input of a fork: a form where the original's input fits the schema, or else JSON. */
export function ForkInput({ schema, initial, length, value, onChange }: Props) {
  const isFitting = schema !== null && check(initial, schema, schema).size === 0;
  const [isForm, setForm] = useState(isFitting);
  if (length > MOST_CHARACTERS) {
    return <p className="muted">The input is too long to edit here, and stays as it is.</p>;
  }
  const given: Schema = isForm && schema ? { ...schema, title: TITLE } : { title: TITLE };
  const root = isForm && schema ? schema : given;
  const errors = check(value, given, root);
  return (
    <>
      <Fields
        key={String(isForm)}
        given={given}
        root={root}
        value={value}
        onChange={onChange}
        pointer="#"
        errors={errors}
        name="input"
        isRequired
      />
      {isFitting && errors.size === 0 ? (
        <div>
          <button type="button" className="btn quiet" onClick={() => setForm(!isForm)}>
            {isForm ? "Edit the input as JSON" : "Edit the input in a form"}
          </button>
        </div>
      ) : null}
    </>
  );
}

/** True if the value can be sent: the server judges the rest. */
export function isSendable(value: unknown, schema: Schema | null): boolean {
  const given = schema ?? {};
  return check(value, given, given).size === 0;
}
