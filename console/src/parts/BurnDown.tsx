import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { nanos, parts } from "@/parts/amount";
import { clock, exact } from "@/parts/moment";
import { usePreferences } from "@/parts/preferences";
import "./BurnDown.css";

export interface Spending {
  at: number;
  /** Spent until then. */
  usd: string;
}

interface Props {
  points: readonly Spending[];
  limit: string | null;
  start: number;
  end: number;
}

const HEIGHT = 190;
const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
const NANOS = 1e9;

/** What was left of the limit at each time; without a limit, what was spent. Amounts are rounded for drawing only. */
export function BurnDown({ points, limit, start, end }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const { theme, zone } = usePreferences();
  const last = points.at(-1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `theme` changes the colours that are read from the document
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const whole = limit === null ? 0n : nanos(limit);
    const value = (usd: string) => Number(limit === null ? nanos(usd) : whole - nanos(usd)) / NANOS;
    const times = [start, ...points.map((point) => point.at), Math.max(end, last?.at ?? start)];
    const values = [value("0.00"), ...points.map((point) => value(point.usd)), value(last?.usd ?? "0.00")];
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => resolved(element, style.getPropertyValue(name));
    const isLong = end - start > DAY_MS;
    const label = (time: number) => (isLong ? exact(time, zone).slice(5, 16) : clock(time, zone));
    const axis = {
      stroke: colour("--faint"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
      font: "11px Inter",
    };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false },
        scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] } },
        axes: [
          { ...axis, space: 90, size: 28, values: (_, all) => all.map((each) => label(each * SECOND_MS)) },
          { ...axis, size: 82, values: (_, all) => all.map((each) => `$${trimmed(each)}`) },
        ],
        series: [
          {},
          {
            label: limit === null ? "spent" : "left",
            stroke: colour("--accent"),
            width: 1.5,
            fill: colour("--accent-soft"),
            points: { show: points.length < 60, size: 5 },
            paths: uPlot.paths.stepped?.({ align: 1 }),
          },
        ],
      } as uPlot.Options,
      [times.map((time) => time / SECOND_MS), values],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [points, limit, start, end, theme, zone]);
  const said = last
    ? `${limit === null ? "Spent" : "Left of the limit"}, ${points.length} payments until ${exact(last.at, zone)}, in all ${parts(last.usd).whole}${parts(last.usd).fraction}`
    : "Nothing was spent";
  return (
    <>
      <div ref={host} className="burn-down" role="img" aria-label={said} />
      {points.length === 0 ? <p className="faint">Nothing was spent yet.</p> : null}
    </>
  );
}

function trimmed(value: number): string {
  return value.toFixed(9).replace(/0+$/, "").replace(/\.$/, "");
}

/** A canvas knows no `light-dark()`: the colour as the browser resolves it. */
function resolved(element: HTMLElement, value: string): string {
  const before = element.style.color;
  element.style.color = value;
  const found = getComputedStyle(element).color;
  element.style.color = before;
  return found;
}
