/** What a form needs to know of a JSON schema (2020-12): which field shows it, where it begins, what is wrong with a value. */
import { isExact, read, write } from "@/api/exact";

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  title?: string;
  description?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema | boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  pattern?: string;
}

export type Kind = "text" | "number" | "integer" | "boolean" | "choice" | "object" | "list" | "json";

/** Text in a field that is no value of its kind: a number that cannot be read. */
export class Unreadable {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toJSON(): string {
    return this.text;
  }
}

export interface Field {
  schema: Schema;
  kind: Kind;
  isNullable: boolean;
}

const DEEPEST = 8;

/** The field of a schema: references followed, `null` beside one other kind taken as "may be empty". */
export function fieldOf(given: Schema, root: Schema, depth = 0): Field {
  const schema = followed(given, root);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) {
    const rest = choices.filter((each) => followed(each, root).type !== "null");
    const only = rest[0];
    if (rest.length === 1 && only) {
      const inner = fieldOf(only, root, depth + 1);
      const words = {
        ...(schema.title ? { title: schema.title } : {}),
        ...(schema.description ? { description: schema.description } : {}),
      };
      return { schema: { ...inner.schema, ...words }, kind: inner.kind, isNullable: rest.length < choices.length };
    }
    return { schema, kind: "json", isNullable: false };
  }
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const kinds = types.filter((each) => each !== "null");
  const isNullable = kinds.length < types.length;
  if (schema.enum) return { schema, kind: "choice", isNullable: isNullable || schema.enum.includes(null) };
  if (kinds.length !== 1) return { schema, kind: "json", isNullable };
  return { schema, kind: kindOf(schema, kinds[0], depth), isNullable };
}

function kindOf(schema: Schema, type: string | undefined, depth: number): Kind {
  if (type === "string") return "text";
  if (type === "number" || type === "integer" || type === "boolean") return type;
  if (type === "object" && schema.properties && depth < DEEPEST) return "object";
  if (type === "array" && typeof schema.items === "object" && depth < DEEPEST) return "list";
  return "json";
}

function followed(given: Schema, root: Schema): Schema {
  let schema = given;
  for (let steps = 0; schema.$ref !== undefined && steps < DEEPEST; steps++) {
    const { $ref, ...beside } = schema;
    const name = /^#\/\$defs\/(.+)$/.exec($ref)?.[1];
    const found = $ref === "#" ? root : name ? root.$defs?.[decodeURIComponent(name)] : undefined;
    if (!found) return {};
    schema = { ...found, ...beside };
  }
  if (schema.allOf?.length === 1 && schema.allOf[0]) {
    const { allOf, ...beside } = schema;
    return { ...followed(allOf[0] as Schema, root), ...beside };
  }
  return schema;
}

/** What a form begins with. Undefined leaves a field out. */
export function starting(given: Schema, root: Schema, isRequired = true): unknown {
  const { schema, kind, isNullable } = fieldOf(given, root);
  if (given.default !== undefined) return given.default;
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (!isRequired) return undefined;
  if (isNullable) return null;
  if (kind === "object") return startingObject(schema, root);
  if (kind === "list") return [];
  if (kind === "boolean") return false;
  if (kind === "choice") return schema.enum?.[0];
  return kind === "text" ? "" : undefined;
}

function startingObject(schema: Schema, root: Schema): Record<string, unknown> {
  const made: Record<string, unknown> = {};
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    const value = starting(each, root, schema.required?.includes(name) ?? false);
    if (value !== undefined) made[name] = value;
  }
  return made;
}

/** Read what was typed into a field of numbers. Empty is no value. */
export function number(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed)) return new Unreadable(text);
  return read(trimmed);
}

export function numberText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (value instanceof Unreadable) return value.text;
  return typeof value === "string" ? value : write(value);
}

/** Errors by JSON pointer. The server judges too; this only spares a way. */
export function check(
  value: unknown,
  given: Schema,
  root: Schema,
  pointer = "#",
  isRequired = true,
): Map<string, string> {
  const errors = new Map<string, string>();
  const { schema, kind, isNullable } = fieldOf(given, root);
  if (value === undefined) return isRequired ? errors.set(pointer, "A value is required.") : errors;
  if (value === null) return isNullable || kind === "json" ? errors : errors.set(pointer, "A value is required.");
  if (value instanceof Unreadable)
    return errors.set(
      pointer,
      kind === "json" ? 'This is not JSON. A text needs quotes: "like this".' : "This is not a number.",
    );
  const wrong = wrongWith(value, schema, kind);
  if (wrong) errors.set(pointer, wrong);
  if (kind === "object" && isObject(value)) {
    for (const [name, each] of Object.entries(schema.properties ?? {})) {
      const inner = check(
        value[name],
        each,
        root,
        `${pointer}/${escaped(name)}`,
        schema.required?.includes(name) ?? false,
      );
      for (const [at, words] of inner) errors.set(at, words);
    }
  }
  if (kind === "list" && Array.isArray(value) && typeof schema.items === "object") {
    for (const [index, each] of value.entries()) {
      for (const [at, words] of check(each, schema.items, root, `${pointer}/${index}`)) errors.set(at, words);
    }
  }
  return errors;
}

function wrongWith(value: unknown, schema: Schema, kind: Kind): string | null {
  if (kind === "text" && typeof value === "string") return wrongText(value, schema);
  if ((kind === "number" || kind === "integer") && (typeof value === "number" || isExact(value))) {
    return wrongNumber(value, schema, kind);
  }
  if (kind === "number" || kind === "integer") return "This is not a number.";
  if (kind === "list" && Array.isArray(value)) {
    if (schema.uniqueItems && schema.minItems === 1 && value.length === 0) return "Choose at least one.";
    if (schema.minItems !== undefined && value.length < schema.minItems) return `At least ${schema.minItems} items.`;
    if (schema.maxItems !== undefined && value.length > schema.maxItems) return `At most ${schema.maxItems} items.`;
  }
  return null;
}

function wrongText(value: string, schema: Schema): string | null {
  const length = Array.from(value).length;
  if (schema.minLength !== undefined && length < schema.minLength) {
    return value === "" ? "A value is required." : `At least ${schema.minLength} characters.`;
  }
  if (schema.maxLength !== undefined && length > schema.maxLength) return `At most ${schema.maxLength} characters.`;
  if (schema.pattern !== undefined && !matches(value, schema.pattern))
    return PATTERNS.get(schema.pattern) ?? `This must match ${schema.pattern}.`;
  return null;
}

const AMOUNT = "Enter an amount in dollars, like 0.50.";
/** What the patterns of our own forms ask for, in words. */
const PATTERNS: ReadonlyMap<string, string> = new Map([
  ["^\\d+(\\.\\d{1,9})?$", AMOUNT],
  ["^[0-9]+(\\.[0-9]{1,9})?$", AMOUNT],
  ["^\\d{4}-\\d{2}-\\d{2}$", "Enter a date, like 2026-11-28."],
  [
    "^[a-z0-9][a-z0-9_.-]{0,63}$",
    "Use lower-case letters, digits, “_”, “.” and “-”; begin with a letter or digit. 64 at most.",
  ],
]);

function matches(value: string, pattern: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // a pattern of another dialect: the server judges
  }
}

function wrongNumber(value: unknown, schema: Schema, kind: Kind): string | null {
  const text = write(value);
  const size = Number(text);
  if (kind === "integer" && !Number.isInteger(size)) return "This must be a whole number.";
  if (schema.minimum !== undefined && size < schema.minimum) return `At least ${schema.minimum}.`;
  if (schema.maximum !== undefined && size > schema.maximum) return `At most ${schema.maximum}.`;
  if (schema.exclusiveMinimum !== undefined && size <= schema.exclusiveMinimum)
    return `More than ${schema.exclusiveMinimum}.`;
  if (schema.exclusiveMaximum !== undefined && size >= schema.exclusiveMaximum)
    return `Less than ${schema.exclusiveMaximum}.`;
  return null;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isExact(value);
}

export function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
