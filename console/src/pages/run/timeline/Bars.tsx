import { memo } from "react";
import type { Bar } from "./rows";
import { placeOf, type Stretch, type View } from "./scale";

interface Props {
  bars: readonly Bar[];
  stretches: readonly Stretch[];
  view: View;
  /** Until where a bar without an end is drawn. */
  end: number;
}

const LEAST_SHARE = 0.0006;

/** The bars of one line, as far as they are in view. */
export const Bars = memo(function Bars({ bars, stretches, view, end }: Props) {
  const width = view.to - view.from;
  const drawn: { bar: Bar; left: number; size: number }[] = [];
  for (const bar of bars) {
    const left = (placeOf(stretches, bar.from) - view.from) / width;
    const right = (placeOf(stretches, bar.to ?? Math.max(end, bar.from)) - view.from) / width;
    if (right < 0 || left > 1) continue;
    const last = drawn.at(-1);
    const near = last && last.bar.tone === bar.tone && left - last.left - last.size < LEAST_SHARE;
    if (near && last) last.size = Math.max(last.size, right - last.left);
    else drawn.push({ bar, left: Math.max(0, left), size: Math.min(1, right) - Math.max(0, left) });
  }
  return drawn.map(({ bar, left, size }) => (
    <i
      key={`${bar.from} ${bar.tone}`}
      className="timeline-bar"
      data-tone={bar.tone}
      data-open={bar.to === null ? "" : undefined}
      title={bar.words}
      style={{ left: `${left * 100}%`, width: `${Math.min(size, 1 - left) * 100}%` }}
    />
  ));
});
