/** Dollars as the API writes them: decimal text, exact to the nano-dollar. Never a float. */
const PLACES = 9;
const NANOS = 10n ** BigInt(PLACES);
const FEWEST = 2;

export function nanos(text: string): bigint {
  const match = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) throw new RangeError(`not an amount: ${text}`);
  const [, sign, whole = "0", fraction = ""] = match;
  const value = BigInt(whole) * NANOS + BigInt(fraction.padEnd(PLACES, "0"));
  return sign ? -value : value;
}

/** As the API writes it: at least two places, no trailing zeros beyond. */
export function dollars(value: bigint): string {
  const sign = value < 0n ? "-" : "";
  const size = value < 0n ? -value : value;
  const fraction = String(size % NANOS)
    .padStart(PLACES, "0")
    .replace(/0+$/, "")
    .padEnd(FEWEST, "0");
  return `${sign}${size / NANOS}.${fraction}`;
}

export function sum(texts: Iterable<string>): string {
  let total = 0n;
  for (const text of texts) total += nanos(text);
  return dollars(total);
}

/** The whole part with separators of thousands, and the fraction. Zero is `$0`. */
export function parts(text: string): { whole: string; fraction: string } {
  const value = nanos(text);
  if (value === 0n) return { whole: "$0", fraction: "" };
  const [whole = "0", fraction = ""] = dollars(value).split(".");
  const sign = whole.startsWith("-") ? "−" : "";
  const grouped = whole.replace("-", "").replace(/\B(?=(\d{3})+$)/g, ",");
  return { whole: `${sign}$${grouped}`, fraction: `.${fraction}` };
}

/** The most places after the point among the amounts of a column. */
export function places(texts: Iterable<string | null | undefined>): number {
  let most = 0;
  for (const text of texts) if (text) most = Math.max(most, parts(text).fraction.length);
  return most;
}

/** Share of `part` in `whole`, 0 to 1, for the length of a bar. */
export function share(part: string, whole: string): number {
  const of = nanos(whole);
  if (of <= 0n) return 0;
  const ratio = Number((nanos(part) * 10_000n) / of) / 10_000;
  return Math.min(1, Math.max(0, ratio));
}
