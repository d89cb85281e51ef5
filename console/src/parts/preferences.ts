/** What a person chose for this browser: theme and time zone. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export type Zone = "local" | "utc";
interface Preferences {
  theme: Theme;
  zone: Zone;
}

const THEME = "holdfast.theme";
const ZONE = "holdfast.zone";
const listeners = new Set<() => void>();

function stored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Storage may be off: the choice lasts for this page.
  }
}

let now: Preferences = {
  theme: (stored(THEME) as Theme | null) ?? "system",
  zone: (stored(ZONE) as Zone | null) ?? "local",
};

function become(next: Preferences): void {
  now = next;
  for (const each of listeners) each();
}

export function setTheme(theme: Theme): void {
  keep(THEME, theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  become({ ...now, theme });
}

export function setZone(zone: Zone): void {
  keep(ZONE, zone);
  become({ ...now, zone });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(subscribe, () => now);
}
