/** The name and roles that a person claims at a server which takes their word, like `holdfast dev`. Kept in this browser. */
import { useSyncExternalStore } from "react";

export interface Acting {
  name: string;
  /** Separated by commas. */
  roles: string;
}

const KEY = "holdfast.acting";
const listeners = new Set<() => void>();
let now: Acting = stored();

function stored(): Acting {
  try {
    const { name, roles } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { name: typeof name === "string" ? name : "", roles: typeof roles === "string" ? roles : "" };
  } catch {
    return { name: "", roles: "" };
  }
}

export function acting(): Acting {
  return now;
}

export function actAs(next: Acting): void {
  now = { name: next.name.trim(), roles: next.roles.trim() };
  try {
    localStorage.setItem(KEY, JSON.stringify(now));
  } catch {
    // Storage may be off: it lasts for this page.
  }
  for (const each of listeners) each();
}

export function useActing(): Acting {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, acting);
}
