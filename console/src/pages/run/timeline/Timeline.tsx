import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useDone } from "@/pages/run/done";
import type { TabProps } from "@/pages/run/tabs";
import { useAddress } from "@/parts/address";
import { useKeys } from "@/parts/keys";
import { duration, millis } from "@/parts/moment";
import { useNow } from "@/parts/now";
import { State } from "@/parts/State";
import { Axis } from "./Axis";
import { Bars } from "./Bars";
import { Panel } from "./Panel";
import { endOf, flat, type Line, linesOf, pathTo, type Shown, startOf } from "./rows";
import { moved, placeOf, stretches, timeAt, type View, WHOLE, zoomed } from "./scale";
import "./Timeline.css";

const ROW_PX = 28;
const NARROW_ROW_PX = 50;
const STEP = 0.2;
const CLOSER = 0.6;

/** Steps as bars, with waits, attempts and what each step did. */
export default function Timeline({ run }: TabProps) {
  const { steps, attempts, operations } = useDone(run.run_id);
  const problem = steps.problem ?? attempts.problem ?? operations.problem;
  const again = () => {
    for (const each of [steps, attempts, operations]) each.again();
  };
  const counts = `${attempts.rows.length} ${operations.rows.length} ${steps.asOf} ${attempts.asOf} ${operations.asOf}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows are new arrays each time; the counts say when they changed
  const lines = useMemo(
    () => linesOf({ steps: steps.rows, attempts: attempts.rows, operations: operations.rows, maps: run.maps }),
    [counts, run.maps],
  );
  const isLoading = steps.isLoading || attempts.isLoading || operations.isLoading;
  return (
    <State
      isLoading={isLoading && lines.length === 0}
      problem={problem}
      again={again}
      isEmpty={lines.length === 0}
      noun="steps"
      hint="The first step has not begun yet."
    >
      <Drawn run={run} lines={lines} isPartial={attempts.hasMore || operations.hasMore} />
    </State>
  );
}

function Drawn({ run, lines, isPartial }: { run: TabProps["run"]; lines: Line[]; isPartial: boolean }) {
  const [selected, select] = useAddress("step");
  const [zoom, setZoom] = useAddress("zoom");
  const [collapses, setCollapses] = useState(true);
  const [turned, setTurned] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [current, setCurrent] = useState<string | null>(null);
  const now = useNow();
  const start = millis(run.started_at);
  const end = run.ended_at ? millis(run.ended_at) : Math.max(now, millis(run.updated_at));
  const all = useMemo(() => stretches(allBars(lines), start, end, collapses), [lines, start, end, collapses]);
  const hasIdle = useMemo(
    () => all.some((each) => each.isIdle) || (!collapses && stretches(allBars(lines), start, end, true).length > 1),
    [all, collapses, lines, start, end],
  );
  const view = useMemo(() => viewOf(zoom, all, start), [zoom, all, start]);
  const setView = (next: View) => {
    const isWhole = next.from <= 0 && next.to >= 1;
    const [from, to] = [next.from, next.to].map((place) => Math.round(timeAt(all, place) - start));
    setZoom(isWhole ? "" : `${from}-${to}`);
  };

  const above = useMemo(() => (selected ? pathTo(lines, selected) : null), [lines, selected]);
  // What a link names is shown, even inside something folded.
  const shownTurned = useMemo(() => {
    if (!above || above.length < 2) return turned;
    const opened = new Map(turned);
    for (const line of above.slice(0, -1)) if (!opened.has(line.id)) opened.set(line.id, true);
    return opened;
  }, [above, turned]);
  const shown = useMemo(() => flat(lines, shownTurned), [lines, shownTurned]);
  const at = current ?? selected;
  const index = shown.findIndex((each) => each.line.id === at);

  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const narrow = useNarrow();
  useLayoutEffect(() => {
    if (box.current) setTop(box.current.getBoundingClientRect().top + window.scrollY);
  });
  const rowPx = narrow ? NARROW_ROW_PX : ROW_PX;
  const virtual = useWindowVirtualizer({
    count: shown.length,
    estimateSize: () => rowPx,
    overscan: 10,
    scrollMargin: top,
    getItemKey: (row) => shown[row]?.line.id ?? row,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows have another height then
  useEffect(() => virtual.measure(), [rowPx]);

  const turn = (line: Line, isOpen: boolean) => setTurned(new Map(shownTurned).set(line.id, isOpen));
  const go = (to: number) => {
    const next = shown[Math.min(shown.length - 1, Math.max(0, to))];
    if (!next) return;
    setCurrent(next.line.id);
    virtual.scrollToIndex(shown.indexOf(next), { align: "auto" });
    requestAnimationFrame(() =>
      box.current?.querySelector<HTMLElement>(`[data-line="${CSS.escape(next.line.id)}"]`)?.focus(),
    );
  };
  const choose = (line: Line) => {
    setCurrent(line.id);
    select(line.id === selected ? "" : line.id);
  };
  const here = shown[index];
  useKeys([
    { key: "j", words: "Next line", run: () => go(index + 1) },
    { key: "k", words: "Previous line", run: () => go(index === -1 ? 0 : index - 1) },
    { key: "Enter", words: "Details of the line", run: () => here && choose(here.line) },
    { key: "Escape", words: "Close the details", run: () => select("") },
    { key: "o", words: "Fold or open the line", run: () => here && turn(here.line, !here.isOpen) },
    { key: "+", words: "Zoom in", run: () => setView(zoomed(view, CLOSER, 0.5)) },
    { key: "-", words: "Zoom out", run: () => setView(zoomed(view, 1 / CLOSER, 0.5)) },
    { key: "h", words: "Earlier", run: () => setView(moved(view, -STEP * (view.to - view.from))) },
    { key: "l", words: "Later", run: () => setView(moved(view, STEP * (view.to - view.from))) },
    { key: "f", words: "Show all of the time", run: () => setView(WHOLE) },
  ]);
  const arrows = (key: string): (() => void) | undefined => {
    switch (key) {
      case "ArrowDown":
        return () => go(index + 1);
      case "ArrowUp":
        return () => go(index - 1);
      case "Home":
        return () => go(0);
      case "End":
        return () => go(shown.length - 1);
      case "ArrowRight":
        return () => here && (here.isOpen || here.line.lines.length === 0 ? go(index + 1) : turn(here.line, true));
      case "ArrowLeft":
        return () => here && (here.isOpen ? turn(here.line, false) : go(parentOf(shown, index)));
      case " ":
        return () => here && choose(here.line);
      default:
        return undefined;
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const found = arrows(event.key);
    if (!found || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    found();
  };

  const chosen = above?.at(-1);
  return (
    <div className="timeline">
      <div className="timeline-main card">
        <Axis
          bars={overview(lines)}
          stretches={all}
          view={view}
          onView={setView}
          end={end}
          start={start}
          collapses={collapses}
          onCollapse={hasIdle ? setCollapses : undefined}
        />
        <div
          ref={box}
          role="treegrid"
          aria-label="Timeline"
          aria-rowcount={shown.length}
          className="timeline-rows"
          style={{ height: virtual.getTotalSize() }}
          onKeyDown={onKeyDown}
        >
          {virtual.getVirtualItems().map((item) => {
            const row = shown[item.index];
            if (!row) return null;
            const { line } = row;
            const isCurrent = item.index === (index === -1 ? 0 : index);
            return (
              // biome-ignore lint/a11y/useSemanticElements: rows of a table element cannot be placed one by one
              <div
                key={item.key}
                role="row"
                tabIndex={isCurrent ? 0 : -1}
                aria-level={row.depth + 1}
                aria-rowindex={item.index + 1}
                aria-expanded={line.lines.length > 0 ? row.isOpen : undefined}
                aria-selected={line.id === selected}
                data-line={line.id}
                className="timeline-row"
                style={{ transform: `translateY(${item.start - top}px)`, height: rowPx }}
                onClick={() => choose(line)}
                onFocus={() => setCurrent(line.id)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter") return;
                  event.stopPropagation();
                  choose(line);
                }}
              >
                {/* biome-ignore lint/a11y/useSemanticElements: as above */}
                {/* biome-ignore lint/a11y/useFocusableInteractive: the row has the focus */}
                <div role="gridcell" className="timeline-name" style={{ paddingLeft: 10 + row.depth * 14 }}>
                  {line.lines.length > 0 ? (
                    <button
                      type="button"
                      tabIndex={-1}
                      className="timeline-turn"
                      aria-label={row.isOpen ? `Fold ${line.name}` : `Open ${line.name}`}
                      onClick={(event) => {
                        event.stopPropagation();
                        turn(line, !row.isOpen);
                      }}
                    >
                      {row.isOpen ? "▾" : "▸"}
                    </button>
                  ) : (
                    <span className="timeline-turn" />
                  )}
                  <code title={`${line.name}, ${line.kind}`}>{line.name}</code>
                </div>
                {/* biome-ignore lint/a11y/useSemanticElements: as above */}
                {/* biome-ignore lint/a11y/useFocusableInteractive: the row has the focus */}
                <div role="gridcell" className="timeline-bars" aria-label={nameOf(line, now)}>
                  <Bars bars={line.bars} stretches={all} view={view} end={end} />
                </div>
                {/* biome-ignore lint/a11y/useSemanticElements: as above */}
                {/* biome-ignore lint/a11y/useFocusableInteractive: the row has the focus */}
                <div role="gridcell" className="timeline-note faint">
                  <span className="num">{lengthOf(line, now)}</span>
                  {line.note ? <span title={line.note}> · {line.note}</span> : null}
                </div>
              </div>
            );
          })}
        </div>
        <div className="timeline-legend faint">
          <Key tone="ok" words="done" />
          <Key tone="busy" words="at work" />
          <Key tone="bad" words="failed" />
          <Key tone="lost" words="lost with its process" />
          <Key tone="wait" words="waits" />
          <Key tone="doubt" words="in doubt" />
          <span className="right">
            {isPartial ? "loading more… · " : null}drag or <kbd>Ctrl</kbd> wheel on the axis zooms · <kbd>f</kbd> shows
            all
          </span>
        </div>
      </div>
      <Panel run={run} line={chosen} isMissing={selected !== "" && !chosen && !isPartial} onClose={() => select("")} />
    </div>
  );
}

function Key({ tone, words }: { tone: string; words: string }) {
  return (
    <span className="timeline-key">
      <i className="timeline-bar" data-tone={tone} /> {words}
    </span>
  );
}

function parentOf(shown: readonly Shown[], index: number): number {
  const depth = shown[index]?.depth ?? 0;
  for (let at = index - 1; at >= 0; at -= 1) if ((shown[at]?.depth ?? 0) < depth) return at;
  return index;
}

function lengthOf(line: Line, now: number): string {
  return line.bars.length === 0 ? line.status.replaceAll("_", " ") : duration((endOf(line) ?? now) - startOf(line));
}

function nameOf(line: Line, now: number): string {
  return `${line.name}, ${line.status.replaceAll("_", " ")}, ${lengthOf(line, now)}`;
}

function* allBars(lines: readonly Line[]): Generator<Line["bars"][number]> {
  for (const line of lines) {
    // A step's own work holds what it did.
    yield* line.bars;
    if (line.bars.length === 0 || line.operation) yield* allBars(line.lines);
    else for (const below of line.lines) if (below.kind === "child run") yield* below.bars;
  }
}

function overview(lines: readonly Line[]): Line["bars"] {
  return lines.flatMap((line) => line.bars);
}

function viewOf(zoom: string, all: Parameters<typeof placeOf>[0], start: number): View {
  const match = /^(\d+)-(\d+)$/.exec(zoom);
  if (!match) return WHOLE;
  const from = placeOf(all, start + Number(match[1]));
  const to = placeOf(all, start + Number(match[2]));
  return to > from ? { from, to } : WHOLE;
}

const NARROW = "(max-width: 760px)";

function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const found = matchMedia(NARROW);
    const changed = () => setNarrow(found.matches);
    found.addEventListener("change", changed);
    return () => found.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}
