/** Keys of the page that is open. They sleep while one types and while a dialog is open; `?` lists them. */
import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Key {
  /** As `KeyboardEvent.key` has it: `j`, `Enter`, `/`; `g r` for two in a row; `Ctrl k` with the control or command key. */
  key: string;
  words: string;
  run: (event: KeyboardEvent) => void;
}

type Entry = { current: readonly Key[] };
const SEQUENCE_MS = 1_000;
let entries: readonly Entry[] = [];
const listeners = new Set<() => void>();
let before: { key: string; at: number } | null = null;

function changed(next: readonly Entry[]): void {
  entries = next;
  for (const each of listeners) each();
}

function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof Element ? (target.shadowRoot?.activeElement ?? target) : null;
  return (
    element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName))
  );
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.altKey) return;
  const isControlled = event.ctrlKey || event.metaKey;
  const inside = event.composedPath()[0] ?? event.target;
  if (!isControlled && (isTyping(inside) || document.querySelector("[role=dialog],[role=alertdialog]"))) return;
  const single = isControlled ? `Ctrl ${event.key.toLowerCase()}` : event.key;
  const isInTime = before !== null && event.timeStamp - before.at < SEQUENCE_MS;
  const double = isInTime && !isControlled ? `${before?.key} ${event.key}` : null;
  const all = [...entries].reverse().flatMap((each) => each.current);
  const found = all.find((each) => each.key === double) ?? all.find((each) => each.key === single);
  before = found || isControlled ? null : { key: event.key, at: event.timeStamp };
  if (!found) return;
  if (found.key === "Enter" && inside instanceof Element && inside.closest("a,button,summary")) return;
  event.preventDefault();
  found.run(event);
}

if (typeof window !== "undefined") window.addEventListener("keydown", onKey);

/** Bind keys while the component is on the page. Of two with one key the later bound one counts. */
export function useKeys(keys: readonly Key[]): void {
  const entry = useRef(keys);
  entry.current = keys;
  useEffect(() => {
    changed([...entries, entry]);
    return () => changed(entries.filter((each) => each !== entry));
  }, []);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The keys that are bound now, each once, for the list under `?`. */
export function useBoundKeys(): readonly Key[] {
  const bound = useSyncExternalStore(subscribe, () => entries);
  const all = bound.flatMap((each) => each.current);
  return all.filter((each, index) => all.findIndex((other) => other.key === each.key) === index);
}
