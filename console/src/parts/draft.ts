/** A draft that survives a reload, in this tab. */
import { useCallback, useState } from "react";
import { read, write } from "@/api/exact";

const DRAFT = "holdfast.draft.";

function kept(name: string): unknown {
  try {
    const text = sessionStorage.getItem(DRAFT + name);
    return text === null ? undefined : read(text);
  } catch {
    return undefined;
  }
}

function keep(name: string, value: unknown): void {
  try {
    if (value === undefined) sessionStorage.removeItem(DRAFT + name);
    else sessionStorage.setItem(DRAFT + name, write(value));
  } catch {
    // Storage may be off or full: the draft lasts as long as the page.
  }
}

/** The draft of that name, and what changes it. Undefined forgets it. */
export function useDraft<T>(name: string): [T | undefined, (next: T | undefined) => void] {
  const [held, setHeld] = useState<{ name: string; value: T | undefined }>(() => ({ name, value: kept(name) as T }));
  // Another thing is on the page: its own draft counts from the first render on.
  const value = held.name === name ? held.value : (kept(name) as T | undefined);
  const set = useCallback(
    (next: T | undefined) => {
      keep(name, next);
      setHeld({ name, value: next });
    },
    [name],
  );
  return [value, set];
}
