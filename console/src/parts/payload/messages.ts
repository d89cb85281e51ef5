/** What the page asks its worker about a payload, and what it is answered. */
import type { Found, Lines } from "./document";

export interface Asked {
  id: number;
  asked:
    | { kind: "open"; url: string; keys?: readonly string[] }
    | { kind: "open"; text: string; keys?: readonly string[] }
    | { kind: "read"; first: number; last: number; most: number }
    | { kind: "find"; words: string }
    | { kind: "text" };
}

export interface Answer {
  id: number;
  lines?: Lines;
  length?: number;
  texts?: string[];
  found?: Found;
  text?: string;
  problem?: string;
}
