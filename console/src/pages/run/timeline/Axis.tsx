import { type PointerEvent, type RefObject, useEffect, useRef, useState } from "react";
import { clock, duration, exact } from "@/parts/moment";
import { usePreferences } from "@/parts/preferences";
import { Bars } from "./Bars";
import { type Bar, merged } from "./rows";
import { moved, type Stretch, timeAt, type View, WHOLE, zoomed } from "./scale";

interface Props {
  bars: readonly Bar[];
  stretches: readonly Stretch[];
  view: View;
  onView: (view: View) => void;
  start: number;
  end: number;
  collapses: boolean;
  /** Missing if there is no idle time. */
  onCollapse: ((collapses: boolean) => void) | undefined;
}

const TICK_PX = 96;
const MOST_TICKS = 8;
const SHORT_MS = 60_000;
const DAY_MS = 86_400_000;
const LEAST_DRAG = 0.004;
const WHEEL = 0.0015;

/** All of the time in small, where a drag zooms, and the times of what is in view. */
export function Axis(props: Props) {
  const { bars, stretches, view, onView, start, end, collapses, onCollapse } = props;
  const { zone } = usePreferences();
  const strip = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const ticks = useTicks(strip);
  const isWhole = view.from <= 0 && view.to >= 1;
  const latest = useRef({ view, onView });
  latest.current = { view, onView };
  useEffect(() => {
    const element = strip.current;
    if (!element) return;
    // Not React's listener: that is passive, and the page would be zoomed too.
    const onWheel = (event: WheelEvent) => {
      const box = element.getBoundingClientRect();
      const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.metaKey && !isSideways && !event.shiftKey) return;
      event.preventDefault();
      const { view: seen, onView: change } = latest.current;
      const width = seen.to - seen.from;
      if (isSideways || event.shiftKey) change(moved(seen, ((event.deltaX || event.deltaY) / box.width) * width));
      else {
        const place = (event.clientX - box.left) / box.width;
        const around = Math.min(1, Math.max(0, (place - seen.from) / width));
        change(zoomed(seen, Math.exp(event.deltaY * WHEEL), around));
      }
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);
  const placeAt = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const shownMs = timeAt(stretches, view.to) - timeAt(stretches, view.from);
  const label = (time: number) => {
    if (shownMs < SHORT_MS) return `+${duration(time - start)}`;
    return end - start > DAY_MS ? exact(time, zone).slice(5, 16) : clock(time, zone);
  };
  const labels = ticks.map((tick) => label(timeAt(stretches, view.from + tick * (view.to - view.from))));
  const chosen = drag ?? (isWhole ? null : view);
  return (
    <div className="timeline-axis">
      <div className="timeline-name faint">
        {isWhole ? (
          <span title="Times of the axis">
            {shownMs < SHORT_MS ? "since the start" : zone === "utc" ? "UTC" : "local time"}
          </span>
        ) : (
          <button type="button" className="btn quiet timeline-fit" onClick={() => onView(WHOLE)}>
            Show all
          </button>
        )}
      </div>
      <div>
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys + - h l f do the same */}
        <div
          ref={strip}
          className="timeline-strip"
          title="Drag to zoom; Ctrl and wheel zooms, Shift and wheel moves; double click shows all"
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            const place = placeAt(event);
            setDrag({ from: place, to: place });
          }}
          onPointerMove={(event) => drag && setDrag({ ...drag, to: placeAt(event) })}
          onPointerUp={() => {
            if (drag && Math.abs(drag.to - drag.from) > LEAST_DRAG) {
              onView({ from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) });
            }
            setDrag(null);
          }}
          onPointerCancel={() => setDrag(null)}
          onDoubleClick={() => onView(WHOLE)}
        >
          <Bars
            bars={merged([...bars].sort((one, other) => one.from - other.from))}
            stretches={stretches}
            view={WHOLE}
            end={end}
          />
          {stretches
            .filter((each) => each.isIdle)
            .map((each) => (
              <span
                key={each.from}
                className="timeline-idle"
                style={{ left: `${each.at * 100}%`, width: `${each.size * 100}%` }}
                title={`Idle for ${duration(each.to - each.from)}, drawn short`}
              />
            ))}
          {chosen ? (
            <span
              className="timeline-window"
              style={{
                left: `${Math.min(chosen.from, chosen.to) * 100}%`,
                width: `${Math.abs(chosen.to - chosen.from) * 100}%`,
              }}
            />
          ) : null}
        </div>
        <div className="timeline-ticks faint num">
          {labels.map((text, index) =>
            // In a short stretch neighbours have the same words: the first has them.
            text === labels[index - 1] ? null : (
              <span key={ticks[index]} style={{ left: `${(ticks[index] ?? 0) * 100}%` }}>
                {text}
              </span>
            ),
          )}
        </div>
      </div>
      <div className="timeline-note faint">
        {onCollapse ? (
          <label>
            <input type="checkbox" checked={collapses} onChange={(event) => onCollapse(event.target.checked)} /> shorten
            idle time
          </label>
        ) : null}
      </div>
    </div>
  );
}

/** Places of the times, as many as there is room for. */
function useTicks(strip: RefObject<HTMLElement | null>): number[] {
  const [count, setCount] = useState(4);
  useEffect(() => {
    const element = strip.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => {
      const width = entry?.contentRect.width ?? 0;
      setCount(Math.min(MOST_TICKS, Math.max(1, Math.floor(width / TICK_PX))));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [strip]);
  return Array.from({ length: count }, (_, index) => index / count);
}
