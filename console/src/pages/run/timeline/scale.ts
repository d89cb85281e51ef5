/** From time to place: linear, but for idle time, of which a long stretch is drawn short. */
import { type Bar, isWaiting } from "./rows";

export interface Stretch {
  from: number;
  to: number;
  /** Where it begins, and its length, of all that is drawn: 0 to 1. */
  at: number;
  size: number;
  isIdle: boolean;
}

const IDLE_SHARE = 0.3;
const SHORTEST_IDLE_MS = 10_000;
const DRAWN_SHARE = 0.07;

/** Stretches from `start` to `end`. Time in which nothing is at work is idle if it is long beside the rest. */
export function stretches(bars: Iterable<Bar>, start: number, end: number, collapses: boolean): Stretch[] {
  const last = Math.max(end, start + 1);
  const busy = collapses ? atWork(bars, last) : [];
  const worked = busy.reduce((sum, [from, to]) => sum + to - from, 0);
  const least = Math.max(worked * IDLE_SHARE, SHORTEST_IDLE_MS);
  const found: { from: number; to: number; isIdle: boolean }[] = [];
  let at = start;
  const idle = (until: number) => {
    if (until - at < least) return;
    if (at > start || found.length > 0) found.push({ from: found.at(-1)?.to ?? start, to: at, isIdle: false });
    found.push({ from: at, to: until, isIdle: true });
  };
  for (const [from, to] of busy) {
    idle(from);
    at = Math.max(at, to);
  }
  if (busy.length > 0) idle(last);
  const done = found.at(-1)?.to ?? start;
  if (done < last) found.push({ from: done, to: last, isIdle: false });
  const real = found.filter((each) => !each.isIdle).reduce((sum, each) => sum + each.to - each.from, 0);
  const drawn = Math.max(real, 1) * DRAWN_SHARE;
  const whole = found.reduce((sum, each) => sum + (each.isIdle ? drawn : each.to - each.from), 0) || 1;
  let place = 0;
  return found
    .filter((each) => each.to > each.from)
    .map((each) => {
      const size = (each.isIdle ? drawn : each.to - each.from) / whole;
      place += size;
      return { ...each, at: place - size, size };
    });
}

/** Intervals in which something was at work, in order, apart from each other. */
function atWork(bars: Iterable<Bar>, end: number): [number, number][] {
  const all: [number, number][] = [];
  for (const bar of bars) if (!isWaiting(bar.tone)) all.push([bar.from, bar.to ?? end]);
  all.sort((one, other) => one[0] - other[0]);
  const found: [number, number][] = [];
  for (const [from, to] of all) {
    const last = found.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** Place of a time, 0 to 1. */
export function placeOf(all: readonly Stretch[], time: number): number {
  let low = 0;
  let high = all.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((all[middle]?.to ?? 0) < time) low = middle + 1;
    else high = middle;
  }
  const found = all[low];
  if (!found) return 0;
  const share = (time - found.from) / (found.to - found.from);
  return found.at + Math.min(1, Math.max(0, share)) * found.size;
}

/** Time at a place. */
export function timeAt(all: readonly Stretch[], place: number): number {
  const found = all.find((each) => place <= each.at + each.size) ?? all.at(-1);
  if (!found) return 0;
  return found.from + Math.min(1, Math.max(0, (place - found.at) / found.size)) * (found.to - found.from);
}

export interface View {
  from: number;
  to: number;
}

export const WHOLE: View = { from: 0, to: 1 };
const CLOSEST = 1e-6;

/** Zoom by a factor (below 1 shows less) around a place of the view, 0 to 1. */
export function zoomed(view: View, factor: number, around: number): View {
  const width = Math.min(1, Math.max(CLOSEST, (view.to - view.from) * factor));
  const fixed = view.from + (view.to - view.from) * around;
  return within(fixed - width * around, width);
}

export function moved(view: View, by: number): View {
  return within(view.from + by, view.to - view.from);
}

function within(from: number, width: number): View {
  const first = Math.min(Math.max(0, from), 1 - width);
  return { from: first, to: first + width };
}
