/**
 * JSON whose numbers keep their digits. A number that JavaScript would round is kept as `JSON.rawJSON`, which
 * `write` prints as it came. Where the browser lacks that, the number is rounded as by JSON.parse.
 */
interface Exact {
  rawJSON?(text: string): unknown;
  isRawJSON?(value: unknown): boolean;
}
type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const json = JSON as unknown as Exact;

/** A number that might lose digits: a long one, or one with a large exponent. Also found in texts, where it does no harm. */
const LONG = /(?<=^|[[:,\s])-?(?:[\d.]{16}|[\d.]+[eE][+-]?\d{3})/;

export function mayLoseDigits(text: string): boolean {
  return LONG.test(text);
}

export function read(text: string): unknown {
  // A function that is called for each value makes reading several times slower: of 5 MB the page would feel it.
  if (!mayLoseDigits(text)) return JSON.parse(text);
  const revive: Reviver = (_key, value, context) => {
    const source = context?.source;
    if (typeof value !== "number" || source === undefined || !json.rawJSON) return value;
    return isKept(value, source) ? value : json.rawJSON(source);
  };
  return JSON.parse(text, revive);
}

export function write(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent) ?? "null";
}

/** True for a number that `read` kept as text. */
export function isExact(value: unknown): value is { rawJSON: string } {
  return json.isRawJSON?.(value) ?? false;
}

function isKept(value: number, source: string): boolean {
  if (!Number.isFinite(value)) return false;
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value);
  return digits(source) === digits(String(value));
}

function digits(text: string): string {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().replace("-", "").split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const all = `${whole}${fraction}`.replace(/^0+/, "");
  if (all === "") return "0";
  const kept = all.replace(/0+$/, "");
  return `${kept}e${Number(exponent) - fraction.length + (all.length - kept.length)}`;
}
