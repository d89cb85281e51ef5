/** Where two values differ, field by field. */
import { write } from "@/api/exact";
import { escaped, isObject } from "@/parts/schema";

export interface Change {
  /** JSON pointer in a fragment: `#/note`. */
  pointer: string;
  label: string;
  before: unknown;
  after: unknown;
}

const UNITS: Readonly<Record<string, string>> = { usd: "USD", eur: "EUR", ms: "ms", s: "s" };

/** A name as a label: `order_id` becomes `Order id`, `amount_usd` becomes `Amount (USD)`. */
export function labelOf(name: string): string {
  const words = name
    .replace(/[_-]+/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .trim()
    .replace(/ (usd|eur|ms|s)$/, (_, unit: string) => ` (${UNITS[unit] ?? unit})`);
  return words ? words.charAt(0).toUpperCase() + words.slice(1) : name;
}

/** Every field that differs. Lists are compared whole; undefined is a field that is not there. */
export function changes(before: unknown, after: unknown, pointer = "#", label = ""): Change[] {
  if (write(before ?? null) === write(after ?? null) && (before === undefined) === (after === undefined)) return [];
  if (!isObject(before) || !isObject(after)) return [{ pointer, label: label || "Value", before, after }];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => {
    const words = label ? `${label} › ${labelOf(name)}` : labelOf(name);
    return changes(before[name], after[name], `${pointer}/${escaped(name)}`, words);
  });
}
