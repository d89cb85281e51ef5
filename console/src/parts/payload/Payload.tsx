import { useVirtualizer } from "@tanstack/react-virtual";
import { Fragment, useEffect, useMemo, useRef, useState } from "react";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import type { Found } from "./document";
import { type Given, type Opened, type Source, sourceOf } from "./source";
import "./Payload.css";

interface Props {
  /** Where it is fetched from, and under which key of the answer it is; or the JSON itself. */
  given: Given;
  label: string;
  /** Most that it takes of the page. */
  height?: string;
}

const ROW_PX = 19;
const CHUNK = 200;
const MOST_OF_A_LINE = 2_000;
const FEWEST_WITH_TOOLS = 12;
const PAUSE_MS = 200;

/** JSON to read, fold, search and copy, however large: it is fetched, split and searched beside the page. */
export function Payload({ given, label, height = "min(52vh, 560px)" }: Props) {
  const key = "url" in given ? `${given.url} ${given.keys?.join(" ") ?? ""}` : given.text;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key says which payload it is
  const source = useMemo(() => ({ make: () => sourceOf(given) }), [key]);
  const [opened, setOpened] = useState<{ source: Source; found: Opened } | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [tries, setTries] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another try opens it again
  useEffect(() => {
    const made = source.make();
    let isCurrent = true;
    setProblem(null);
    made.open().then(
      (found) => isCurrent && setOpened({ source: made, found }),
      (error: unknown) => isCurrent && setProblem(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      isCurrent = false;
      setOpened(null);
      made.close();
    };
  }, [source, tries]);
  if (problem) {
    return (
      <p className="line" role="alert">
        {problem}{" "}
        <button type="button" className="btn" onClick={() => setTries(tries + 1)}>
          Try again
        </button>
      </p>
    );
  }
  if (!opened) {
    return (
      <p className="faint" role="status">
        Loading {label}…
      </p>
    );
  }
  return <Shown {...opened} label={label} height={height} />;
}

function Shown({ source, found, label, height }: { source: Source; found: Opened; label: string; height: string }) {
  const { lines } = found;
  const count = lines.from.length;
  const [folded, setFolded] = useState<ReadonlySet<number>>(new Set());
  const [words, setWords] = useState("");
  const [matches, setMatches] = useState<Found | null>(null);
  const [match, setMatch] = useState(0);
  const [copied, setCopied] = useState<"ready" | "copied" | "failed">("ready");
  const box = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => visible(lines.closes, folded), [lines, folded]);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 20,
  });
  const items = virtual.getVirtualItems();
  const texts = useTexts(source, shown, items.at(0)?.index ?? 0, items.at(-1)?.index ?? 0);

  useEffect(() => {
    let isCurrent = true;
    const timer = setTimeout(async () => {
      const next = words ? await source.find(words) : null;
      if (!isCurrent) return;
      setMatches(next);
      setMatch(0);
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [words, source]);

  const line = matches?.lines[match];
  const sought = useRef<number | undefined>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a match is gone to once, not whenever something is folded
  useEffect(() => {
    sought.current = line;
    if (line === undefined) return;
    const open = new Set(folded);
    for (const each of folded) if (each < line && (lines.closes[each] ?? 0) >= line) open.delete(each);
    if (open.size !== folded.size) setFolded(open);
    else go();
  }, [line]);
  // What was folded around it is open by then.
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  useEffect(() => go(), [shown]);
  const go = () => {
    if (sought.current === undefined) return;
    virtual.scrollToIndex(placeIn(shown, sought.current), { align: "center" });
    sought.current = undefined;
  };
  const step = (by: number) => {
    const all = matches?.lines.length ?? 0;
    if (all > 0) setMatch((match + by + all) % all);
  };
  const turn = (at: number) => {
    const next = new Set(folded);
    if (!next.delete(at)) next.add(at);
    setFolded(next);
  };
  const foldAll = () => {
    const next = new Set<number>();
    // Inside the outermost: its lists and objects, and the entries of these.
    for (let at = 1; at < count; at += 1) {
      const depth = lines.depth[at] ?? 0;
      if ((lines.closes[at] ?? -1) > at && (depth === 1 || depth === 2)) next.add(at);
    }
    setFolded(next);
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await source.text());
      setCopied("copied");
    } catch {
      setCopied("failed");
    }
  };
  const canFold = count > 1;
  return (
    <div className="payload">
      {count >= FEWEST_WITH_TOOLS || found.length > MOST_OF_A_LINE ? (
        <div className="payload-tools">
          <input
            className="field"
            type="search"
            aria-label={`Search ${label}`}
            placeholder="Search"
            value={words}
            onChange={(event) => setWords(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
            }}
          />
          {matches ? (
            <>
              <span className="faint num" role="status">
                {matches.count === 0
                  ? "not found"
                  : `${matches.count.toLocaleString("en")} in ${matches.lines.length.toLocaleString("en")} lines`}
              </span>
              <button type="button" className="btn quiet" aria-label="Previous match" onClick={() => step(-1)}>
                ↑
              </button>
              <button type="button" className="btn quiet" aria-label="Next match" onClick={() => step(1)}>
                ↓
              </button>
            </>
          ) : null}
          <span className="right faint num">{sizeOf(found.length)}</span>
          {canFold ? (
            <button
              type="button"
              className="btn quiet"
              onClick={() => (folded.size > 0 ? setFolded(new Set()) : foldAll())}
            >
              {folded.size > 0 ? "Unfold all" : "Fold all"}
            </button>
          ) : null}
          <button type="button" className="btn quiet" onClick={copy}>
            {{ ready: "Copy", copied: "Copied", failed: "The browser did not allow the copy" }[copied]}
          </button>
        </div>
      ) : (
        <div className="payload-copy">
          <LateCopy source={source} label={label} />
        </div>
      )}
      <section
        ref={box}
        className="payload-lines"
        style={{ maxHeight: height }}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys
        tabIndex={0}
        aria-label={label}
      >
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {items.map((item) => {
            const at = shown[item.index] ?? 0;
            const closes = lines.closes[at] ?? -1;
            const isFolded = folded.has(at);
            return (
              <div
                key={at}
                className="payload-line"
                data-match={at === line ? "" : undefined}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {closes > at ? (
                  <button
                    type="button"
                    className="payload-turn"
                    tabIndex={-1}
                    aria-label={isFolded ? "Unfold" : "Fold"}
                    aria-expanded={!isFolded}
                    onClick={() => turn(at)}
                  >
                    {isFolded ? "▸" : "▾"}
                  </button>
                ) : (
                  <span className="payload-turn" />
                )}
                <span style={{ paddingLeft: `${(lines.depth[at] ?? 0) * 14}px` }}>
                  <Line text={texts.get(at)} length={(lines.to[at] ?? 0) - (lines.from[at] ?? 0)} words={words} />
                  {isFolded ? (
                    <button type="button" className="payload-folded" tabIndex={-1} onClick={() => turn(at)}>
                      {(closes - at - 1).toLocaleString("en")} lines
                    </button>
                  ) : null}
                </span>
              </div>
            );
          })}
        </div>
      </section>
    </div>
  );
}

function LateCopy({ source, label }: { source: Source; label: string }) {
  const [text, setText] = useState("");
  useEffect(() => {
    let isCurrent = true;
    void source.text().then((found) => isCurrent && setText(found));
    return () => {
      isCurrent = false;
    };
  }, [source]);
  return <CopyButton text={text} label={`Copy ${label}`} />;
}

/** The texts of the lines in view, read in pieces. */
function useTexts(source: Source, shown: Int32Array, first: number, last: number): ReadonlyMap<number, string> {
  const [texts, setTexts] = useState<ReadonlyMap<number, string>>(new Map());
  const asked = useRef(new Set<number>());
  const about = useRef(source);
  if (about.current !== source) {
    about.current = source;
    asked.current = new Set();
  }
  useEffect(() => {
    const chunks = new Set<number>();
    for (let at = first; at <= last; at += 1) chunks.add(Math.floor((shown[at] ?? 0) / CHUNK));
    for (const chunk of chunks) {
      if (asked.current.has(chunk)) continue;
      asked.current.add(chunk);
      void source.read(chunk * CHUNK, (chunk + 1) * CHUNK, MOST_OF_A_LINE).then((found) => {
        setTexts((before) => {
          const next = new Map(before);
          found.forEach((text, index) => {
            next.set(chunk * CHUNK + index, text);
          });
          return next;
        });
      });
    }
  }, [source, shown, first, last]);
  return texts;
}

/** The lines that are not inside something folded. */
function visible(closes: Int32Array, folded: ReadonlySet<number>): Int32Array {
  const found = new Int32Array(closes.length);
  let count = 0;
  for (let at = 0; at < closes.length; at += 1) {
    found[count] = at;
    count += 1;
    // The closing bracket is left out too: the folded line says what it has.
    if (folded.has(at)) at = Math.max(at, closes[at] ?? at);
  }
  return found.subarray(0, count);
}

function placeIn(shown: Int32Array, line: number): number {
  let low = 0;
  let high = shown.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((shown[middle] ?? 0) <= line) low = middle;
    else high = middle - 1;
  }
  return low;
}

const TOKEN = /^("(?:[^"\\]|\\.)*")(\s*:\s*)|"(?:[^"\\]|\\.)*"?|-?\d[\d.eE+-]*|true|false|null/g;

function Line({ text, length, words }: { text: string | undefined; length: number; words: string }) {
  if (text === undefined) return <span className="faint">…</span>;
  const rest = length - text.length;
  const parts: { kind: string; text: string }[] = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > at) parts.push({ kind: "mark", text: text.slice(at, match.index) });
    if (match[1] !== undefined) {
      parts.push({ kind: "key", text: match[1] }, { kind: "mark", text: ": " });
    } else parts.push({ kind: kindOf(match[0]), text: match[0] });
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push({ kind: "mark", text: text.slice(at) });
  return (
    <>
      {parts.map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other identity, and never move
        <span key={index} className={`payload-${part.kind}`}>
          <Marked text={part.text} words={words} />
        </span>
      ))}
      {rest > 0 ? <span className="faint"> … {sizeOf(rest)} more, copied with the rest</span> : null}
    </>
  );
}

function kindOf(token: string): string {
  if (token.startsWith('"')) return "text";
  return /^[tfn]/.test(token) ? "word" : "number";
}

function Marked({ text, words }: { text: string; words: string }) {
  if (!words) return <ForeignText text={text} />;
  const lower = text.toLowerCase();
  const sought = words.toLowerCase();
  const parts = [];
  let at = 0;
  for (let next = lower.indexOf(sought); next !== -1; next = lower.indexOf(sought, at)) {
    parts.push(
      <ForeignText key={at} text={text.slice(at, next)} />,
      <mark key={`m${next}`}>{text.slice(next, next + sought.length)}</mark>,
    );
    at = next + sought.length;
  }
  parts.push(<ForeignText key={at} text={text.slice(at)} />);
  return <Fragment>{parts}</Fragment>;
}

function sizeOf(characters: number): string {
  if (characters < 1_000) return `${characters} characters`;
  if (characters < 1_000_000) return `${Math.round(characters / 1_000)} kB`;
  return `${(characters / 1_000_000).toFixed(1)} MB`;
}
