/** The data of a decision: what the gate fills in, what is left open, what is sent. */
import { write } from "@/api/exact";
import type { Whole } from "@/pages/inbox/words";
import type { Answer } from "@/parts/answer";
import { check, isObject, type Schema } from "@/parts/schema";

/** What a reviewer has begun and not sent. */
export interface Draft extends Answer {
  value?: unknown;
  isEditing?: boolean | undefined;
  reason?: string | undefined;
  /** By JSON pointer, from the last try to send. */
  errors?: Record<string, string> | undefined;
}

export function schemaOf(gate: Whole): Schema | null {
  return isObject(gate.form) ? (gate.form as Schema) : null;
}

/** Fields of the form that the gate does not fill: an approval may bring them. */
export function openFields(schema: Schema, filled: unknown): string[] {
  const held = isObject(filled) ? filled : {};
  return Object.keys(schema.properties ?? {}).filter((name) => !(name in held));
}

export function withOnly(schema: Schema, names: readonly string[]): Schema {
  const properties = Object.fromEntries(names.map((name) => [name, schema.properties?.[name] ?? {}]));
  return { ...schema, properties, required: schema.required?.filter((name) => names.includes(name)) ?? [] };
}

/** True if an answer is any value: the tool's response, or a question without a form. */
export function isFreeAnswer(gate: Whole, decision: string): boolean {
  if (decision !== "answer") return false;
  return gate.form === null || gate.reason === "tool_approval" || gate.reason === "effect_unknown";
}

/** Filled values in the order of the form's fields. */
export function inOrder(filled: unknown, schema: Schema | null): unknown {
  if (!isObject(filled) || !schema?.properties) return filled;
  const names = Object.keys(schema.properties);
  const first = names.filter((name) => name in filled);
  const rest = Object.keys(filled).filter((name) => !names.includes(name));
  return Object.fromEntries([...first, ...rest].map((name) => [name, filled[name]]));
}

/** What a decision brought beside the data that the gate shows; undefined if nothing. */
export function broughtBy({
  decision,
  data,
  initial_data,
}: Pick<Whole, "decision" | "data" | "initial_data">): unknown {
  if (data === null || data === undefined) return undefined;
  if (!isObject(data)) return decision === "approve" && write(data) === write(initial_data) ? undefined : data;
  const shown = decision === "approve" && isObject(initial_data) ? initial_data : {};
  const brought = Object.entries(data).filter(
    ([name, value]) => !(name in shown) || write(value) !== write(shown[name]),
  );
  return brought.length > 0 ? Object.fromEntries(brought) : undefined;
}

/** The form's data that a decision sends. */
export function dataOf(gate: Whole, decision: string, draft: Draft | undefined): unknown {
  const schema = schemaOf(gate);
  if (!schema || isFreeAnswer(gate, decision)) return undefined;
  // Beside an approval the page has only the open fields of an answer.
  const isPart = decision === "answer" && gate.allowed.includes("approve");
  if (isPart && isObject(gate.initial_data) && isObject(draft?.value)) return { ...gate.initial_data, ...draft.value };
  if (decision === "edit" || decision === "answer") return draft?.value ?? gate.initial_data;
  if (decision !== "approve") return undefined;
  const names = openFields(schema, gate.initial_data);
  if (names.length === 0) return undefined;
  const held = isObject(draft?.value) ? draft.value : {};
  return Object.fromEntries(names.filter((each) => held[each] !== undefined).map((each) => [each, held[each]]));
}

/** What is wrong with a decision's data, by JSON pointer. */
export function wrongIn(gate: Whole, decision: string, draft: Draft | undefined): Map<string, string> {
  const schema = schemaOf(gate);
  const data = dataOf(gate, decision, draft);
  if (!schema || data === undefined) return new Map();
  const fits = decision === "approve" ? withOnly(schema, openFields(schema, gate.initial_data)) : schema;
  return check(data, fits, schema);
}
