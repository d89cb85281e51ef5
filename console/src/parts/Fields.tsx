import { type ReactNode, useId, useState } from "react";
import { read, write } from "@/api/exact";
import { labelOf as nameWords } from "@/parts/difference";
import { Json } from "@/parts/Json";
import { escaped, fieldOf, isObject, number, numberText, type Schema, starting, Unreadable } from "@/parts/schema";

interface Props {
  given: Schema;
  root: Schema;
  value: unknown;
  /** Undefined leaves the value out. */
  onChange: (value: unknown) => void;
  pointer: string;
  errors: ReadonlyMap<string, string>;
  /** Property's name; null for the whole value. */
  name: string | null;
  isRequired: boolean;
}

const LONG = 60;

/** The field of a value, or the fields of an object or a list. */
export function Fields(props: Props) {
  const { given, root, value, onChange, pointer, errors, name, isRequired } = props;
  const { schema, kind } = fieldOf(given, root);
  if (kind === "object" && value !== undefined && value !== null) {
    const held = isObject(value) ? value : {};
    const inside = Object.entries(schema.properties ?? {}).map(([each, property]) => (
      <Fields
        key={each}
        given={property}
        root={root}
        value={held[each]}
        onChange={(next) => onChange(withProperty(held, each, next, Object.keys(schema.properties ?? {})))}
        pointer={`${pointer}/${escaped(each)}`}
        errors={errors}
        name={each}
        isRequired={schema.required?.includes(each) ?? false}
      />
    ));
    if (name === null) return <>{inside}</>;
    return (
      <fieldset>
        <legend>{labelOf(schema, name)}</legend>
        {inside}
        {isRequired ? null : <LeaveOut onClick={() => onChange(undefined)} name={labelOf(schema, name)} />}
      </fieldset>
    );
  }
  if (kind === "list" && Array.isArray(value) && schema.uniqueItems) {
    return <Choices {...props} schema={schema} chosen={value} />;
  }
  if (kind === "list" && Array.isArray(value)) return <List {...props} schema={schema} items={value} />;
  if ((kind === "object" || kind === "list") && (value === undefined || value === null)) {
    return (
      <div>
        <button type="button" className="btn" onClick={() => onChange(starting(schema, root))}>
          Add {labelOf(schema, name)}
        </button>
      </div>
    );
  }
  return <Leaf {...props} />;
}

function List({ schema, items, root, onChange, pointer, errors, name }: Props & { schema: Schema; items: unknown[] }) {
  const item = typeof schema.items === "object" ? schema.items : {};
  const label = labelOf(schema, name);
  return (
    <fieldset>
      <legend>{label}</legend>
      {items.map((each, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: items of a list have no other identity
        <div className="form-item" key={index}>
          <Fields
            given={item}
            root={root}
            value={each}
            onChange={(next) => onChange(items.map((old, at) => (at === index ? (next ?? null) : old)))}
            pointer={`${pointer}/${index}`}
            errors={errors}
            name={`${label} ${index + 1}`}
            isRequired
          />
          <button
            type="button"
            className="btn quiet"
            aria-label={`Remove ${label} ${index + 1}`}
            onClick={() => onChange(items.filter((_, at) => at !== index))}
          >
            Remove
          </button>
        </div>
      ))}
      <Wrong id={undefined} words={errors.get(pointer)} />
      <div>
        <button type="button" className="btn" onClick={() => onChange([...items, starting(item, root) ?? null])}>
          Add an item
        </button>
      </div>
    </fieldset>
  );
}

/** A list of different values that are known: a box each. */
function Choices({ schema, chosen, onChange, pointer, errors, name }: Props & { schema: Schema; chosen: unknown[] }) {
  const id = useId();
  const choices = typeof schema.items === "object" ? (schema.items.oneOf ?? []) : [];
  const words = errors.get(pointer);
  return (
    <fieldset aria-describedby={words ? `${id}-wrong` : undefined}>
      <legend>{labelOf(schema, name)}</legend>
      <div className="form-choices">
        {choices.map((each) => (
          <label className="form-check" key={write(each.const)}>
            <input
              type="checkbox"
              checked={chosen.includes(each.const)}
              aria-invalid={words !== undefined}
              onChange={(event) =>
                onChange(
                  choices
                    .map((other) => other.const)
                    .filter((other) => (other === each.const ? event.target.checked : chosen.includes(other))),
                )
              }
            />
            {each.title ?? String(each.const)}
          </label>
        ))}
      </div>
      <Wrong id={id} words={words} />
    </fieldset>
  );
}

function LeaveOut({ onClick, name }: { onClick: () => void; name: string }) {
  return (
    <div>
      <button type="button" className="btn quiet" onClick={onClick}>
        Leave out {name}
      </button>
    </div>
  );
}

function Leaf({ given, root, value, onChange, pointer, errors, name, isRequired }: Props) {
  const id = useId();
  const { schema, kind, isNullable } = fieldOf(given, root);
  const label = labelOf(schema, name);
  // It stays as it began: another element in its place would take the focus in the middle of a word.
  const [isLong] = useState(() => isLongText(value, schema));
  const words = errors.get(pointer);
  const common = {
    id,
    className: "field",
    "aria-invalid": words !== undefined,
    "aria-describedby": words ? `${id}-wrong` : schema.description ? `${id}-hint` : undefined,
    "aria-required": isRequired,
  };
  // An empty field that may be left out is left out; one that may be null is null.
  const empty = isRequired ? (isNullable ? null : undefined) : undefined;
  let input: ReactNode;
  if (kind === "boolean") {
    return (
      <div className="form-field">
        <label className="form-check">
          <input
            id={id}
            type="checkbox"
            checked={value === true}
            aria-invalid={words !== undefined}
            onChange={(event) => onChange(event.target.checked)}
          />
          {label}
        </label>
        <Hint id={id} schema={schema} />
        <Wrong id={id} words={words} />
      </div>
    );
  }
  if (kind === "choice") {
    const choices = schema.enum ?? [];
    input = (
      <select
        {...common}
        value={value === undefined ? "" : write(value)}
        onChange={(event) => onChange(event.target.value === "" ? empty : read(event.target.value))}
      >
        {isRequired && !isNullable ? null : <option value="">–</option>}
        {choices
          .filter((each) => each !== null)
          .map((each) => (
            <option key={write(each)} value={write(each)}>
              {String(each)}
            </option>
          ))}
      </select>
    );
  } else if (kind === "number" || kind === "integer") {
    input = (
      <input
        {...common}
        inputMode={kind === "integer" ? "numeric" : "decimal"}
        autoComplete="off"
        value={numberText(value)}
        onChange={(event) => onChange(number(event.target.value) ?? empty)}
      />
    );
  } else if (kind === "text") {
    const text = typeof value === "string" ? value : "";
    const change = (next: string) => onChange(next === "" && (!isRequired || isNullable) ? empty : next);
    input = isLong ? (
      <textarea {...common} value={text} onChange={(event) => change(event.target.value)} />
    ) : (
      <input {...common} autoComplete="off" value={text} onChange={(event) => change(event.target.value)} />
    );
  } else {
    return <Raw label={label} value={value} onChange={onChange} words={words} schema={schema} />;
  }
  return (
    <div className="form-field">
      <label htmlFor={id}>
        {label}
        {isRequired ? null : <span className="faint"> (optional)</span>}
      </label>
      {input}
      <Hint id={id} schema={schema} />
      <Wrong id={id} words={words} />
    </div>
  );
}

function isLongText(value: unknown, schema: Schema): boolean {
  const text = typeof value === "string" ? value : "";
  return text.length > LONG || text.includes("\n") || (schema.maxLength ?? 0) > 200 || schema.format === "text";
}

interface RawProps {
  label: string;
  value: unknown;
  onChange: (value: unknown) => void;
  words: string | undefined;
  schema: Schema;
}

/** A value of any kind, as JSON. */
function Raw({ label, value, onChange, words, schema }: RawProps) {
  const id = useId();
  const [text, setText] = useState(() =>
    value instanceof Unreadable ? value.text : value === undefined ? "" : write(value, 2),
  );
  return (
    <div className="form-field">
      <div className="form-label">{label} (JSON)</div>
      <Json
        label={label}
        text={text}
        height="30vh"
        onChange={(next) => {
          setText(next);
          onChange(parsed(next));
        }}
      />
      <Hint id={id} schema={schema} />
      <Wrong id={id} words={words} />
    </div>
  );
}

function parsed(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return read(text);
  } catch {
    return new Unreadable(text);
  }
}

function Hint({ id, schema }: { id: string; schema: Schema }) {
  return schema.description ? (
    <div className="hint" id={`${id}-hint`}>
      {schema.description}
    </div>
  ) : null;
}

function Wrong({ id, words }: { id: string | undefined; words: string | undefined }) {
  return words ? (
    <div className="form-error" id={id && `${id}-wrong`}>
      {words}
    </div>
  ) : null;
}

function labelOf(schema: Schema, name: string | null): string {
  if (name === null) return schema.title ?? "Value";
  // Pydantic makes titles of names, `Amount Usd`: those are no one's words.
  const made = name.replaceAll("_", " ").replace(/(^|[^a-z])[a-z]/gi, (each) => each.toUpperCase());
  return schema.title === undefined || schema.title === made ? nameWords(name) : schema.title;
}

/** The object with another value of one property, in the order of the schema. */
function withProperty(held: Record<string, unknown>, name: string, value: unknown, order: readonly string[]) {
  const all: Record<string, unknown> = { ...held, [name]: value };
  const names = [...order.filter((each) => each in all), ...Object.keys(all).filter((each) => !order.includes(each))];
  return Object.fromEntries(names.flatMap((each) => (all[each] === undefined ? [] : [[each, all[each]]])));
}
