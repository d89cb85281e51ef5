import { clock, duration, exact, millis, relative } from "@/parts/moment";
import { useNow } from "@/parts/now";
import { usePreferences } from "@/parts/preferences";

interface Props {
  /** RFC 3339, or milliseconds since 1970. Null is shown as "–". */
  at: string | number | null | undefined;
  /** `relative` for lists, `clock` for 14:02:07, `exact` for all of it. */
  kind?: "relative" | "clock" | "exact";
}

/** A time: relative, and exact with its zone on hover. */
export function Time({ at, kind = "relative" }: Props) {
  const { zone } = usePreferences();
  if (at === null || at === undefined) return <span className="faint">–</span>;
  const ms = millis(at);
  const full = exact(ms, zone);
  return (
    <time dateTime={Number.isNaN(ms) ? undefined : new Date(ms).toISOString()} title={full}>
      {kind === "relative" ? <Relative ms={ms} /> : kind === "clock" ? clock(ms, zone) : full}
    </time>
  );
}

function Relative({ ms }: { ms: number }) {
  return relative(ms, useNow());
}

/** How long something took or, without an end, has taken so far: that ticks. */
export function Duration({ from, to }: { from: string | number; to?: string | number | null }) {
  return (
    <span className="num">
      {to === null || to === undefined ? <Running from={millis(from)} /> : duration(millis(to) - millis(from))}
    </span>
  );
}

function Running({ from }: { from: number }) {
  return duration(useNow() - from);
}
