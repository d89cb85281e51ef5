/** A model's reply as the API keeps it: what it said, and what it asked tools to do. */
import { write } from "@/api/exact";

export interface Asking {
  id: string;
  name: string;
  arguments: string;
}

export interface Reply {
  text: string;
  thinking: string;
  asked: Asking[];
  finish: string | null;
}

export function replyOf(kept: unknown): Reply | null {
  if (typeof kept === "string") return { text: kept, thinking: "", asked: [], finish: null };
  if (typeof kept !== "object" || kept === null) return null;
  const found = kept as Record<string, unknown>;
  const asked = [...listOf(found.tool_requests), ...(found.answer ? [found.answer] : [])].map(askingOf);
  const turn = found.turn as { parts?: unknown } | null | undefined;
  const thinking = listOf(turn?.parts)
    .filter((part) => (part as { part_kind?: unknown }).part_kind === "thinking")
    .map((part) => String((part as { content?: unknown }).content ?? ""))
    .join("\n");
  const finish = typeof found.finish_reason === "string" ? found.finish_reason : null;
  return { text: textOf(found.text), thinking, asked, finish };
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : write(value, 2);
}

function askingOf(value: unknown): Asking {
  const found = (value ?? {}) as Record<string, unknown>;
  return {
    id: String(found.id ?? ""),
    name: String(found.name ?? ""),
    arguments: textOf(found.arguments ?? found.args),
  };
}
