/** Amounts by day or hour, stacked by group. The lengths are drawn from rounded numbers; the words beside are exact. */
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { nanos } from "@/parts/amount";
import { beginOf, dayOf } from "@/parts/costs";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { usePreferences } from "@/parts/preferences";
import "./StackedDays.css";

export interface Group {
  name: string;
  /** Dollars of each day or hour. */
  amounts: readonly string[];
  /** By default the next of all tones. */
  tone?: Tone;
}

interface Props {
  /** Days like `2026-11-28` or hours like `2026-11-28T14`, in UTC. */
  days: readonly string[];
  /** The largest first. */
  groups: readonly Group[];
  label: string;
}

const TONES = ["busy", "ok", "wait", "doubt", "bad", "idle"] as const;
type Tone = (typeof TONES)[number] | "text";
const HEIGHT_PX = 180;
const NANOS = 1e9;

export function StackedDays({ days, groups, label }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const { theme } = usePreferences();
  const isDark = useDark();

  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours, which a canvas does not follow
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const stacked = stack(days.length, groups);
    const isByHour = (days[0]?.length ?? 0) > DAY_CHARS;
    const step = isByHour ? HOUR_S : DAY_S;
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT_PX,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: {
          x: { time: true, range: (_u, min, max) => [min - step / 2, max + step / 2] },
          y: { range: (_u, _min, max) => [0, max || 1] },
        },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        axes: [
          {
            stroke: resolved(element, "muted"),
            grid: { show: false },
            ticks: { show: false },
            font: AXIS_FONT,
            incrs: isByHour ? HOURS : INCREMENTS,
            values: (_u, splits) => splits.map((each) => labelOf(each * 1000, isByHour)),
          },
          {
            stroke: resolved(element, "muted"),
            grid: { stroke: resolved(element, "line"), width: 1 },
            ticks: { show: false },
            font: AXIS_FONT,
            size: 64,
            values: (_u, splits) => splits.map((each) => `$${Number(each.toPrecision(6))}`),
          },
        ],
        series: [
          {},
          // The whole first, then what is below it: each bar covers the lower part of the one before.
          ...stacked.map((_, index) => ({
            fill: resolved(element, toneOf(groups, stacked.length - 1 - index)),
            stroke: colour("surface"),
            width: 0,
            paths: uPlot.paths.bars?.({ size: [0.7, 40], align: 0 }) ?? (() => null),
            points: { show: false },
          })),
        ],
        hooks: { setCursor: [(chart) => setAt(chart.cursor.idx ?? null)] },
      },
      [days.map((day) => beginOf(day) / 1000), ...stacked],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [days, groups, theme, isDark]);

  const day = at === null ? undefined : days[at];
  return (
    <figure className="card days" aria-label={label}>
      <div ref={host} className="days-plot" role="img" aria-label={label} />
      <figcaption className="days-legend">
        <span className="muted">
          {day === undefined ? "The whole time" : day.replace("T", " ")}
          {day && day.length > DAY_CHARS ? ":00" : ""}
        </span>
        {groups.map((group, index) => (
          <span key={group.name} className="line">
            <i className="days-colour" data-tone={toneOf(groups, index)} />
            <ForeignText text={group.name} />
            {at === null ? null : <Money usd={group.amounts[at]} />}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

const DAY_CHARS = "2026-11-28".length;
const HOUR_S = 3_600;
const DAY_S = 86_400;
const HOURS = [1, 3, 6, 12, 24].map((hours) => hours * HOUR_S);
const AXIS_FONT = "11px Inter, sans-serif";
const INCREMENTS = [1, 2, 7, 14, 28, 91, 182, 365].map((days) => days * DAY_S);

function labelOf(at: number, isByHour: boolean): string {
  const time = new Date(at).toISOString();
  return isByHour && !time.includes("T00:") ? time.slice(11, 16) : dayOf(at).slice(5);
}

function toneOf(groups: readonly Group[], index: number): Tone {
  return groups[index]?.tone ?? TONES[index % TONES.length] ?? "busy";
}

/** For each group the sum of it and of those below it, the whole first. */
export function stack(days: number, groups: readonly Group[]): number[][] {
  const sums = new Array<bigint>(days).fill(0n);
  const found: number[][] = [];
  for (const group of groups) {
    found.unshift(
      sums.map((sum, day) => {
        const next = sum + nanos(group.amounts[day] ?? "0");
        sums[day] = next;
        return Number(next) / NANOS;
      }),
    );
  }
  return found;
}

/** A token's colour as a canvas understands it. */
function resolved(element: HTMLElement, token: string): string {
  const before = element.style.color;
  element.style.color = `var(--${token})`;
  const colour = getComputedStyle(element).color;
  element.style.color = before;
  return colour;
}

function useDark(): boolean {
  const [isDark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const note = () => setDark(query.matches);
    query.addEventListener("change", note);
    return () => query.removeEventListener("change", note);
  }, []);
  return isDark;
}
