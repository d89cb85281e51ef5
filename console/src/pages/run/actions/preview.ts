/** A preview of a command to a run: the server's answer to what it would do, read again after each event of the run. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Body } from "@/api/bodies";
import { type Schemas, send } from "@/api/client";
import { write } from "@/api/exact";
import { asProblem } from "@/api/problem";

export type Quote = Schemas["RunQuoteRow"];
/** A command, with the body that its own route takes. */
export type Asked =
  | { action: "cancel" | "pause" | "resume" | "retry" }
  | { action: "extend"; fields: Body<"/api/v1/runs/{run}/extend"> }
  | { action: "raise_budget"; fields: Body<"/api/v1/runs/{run}/budget"> }
  | { action: "signal"; fields: { name: string; data: unknown } }
  | { action: "fork"; fields: Body<"/api/v1/runs/{run}/fork"> };

const QUOTE = "/api/v1/runs/{run}/quote";
const SETTLED_MS = 250;

/** Null asks for nothing: the form is not complete. `quote` is undefined while it is read, and while the form changes. */
export function usePreview(run: string, asked: Asked | null) {
  const text = asked === null ? null : write(asked);
  const settled = useSettledText(text);
  const query = useQuery({
    queryKey: [QUOTE, { run }, settled],
    queryFn: async ({ signal }) => {
      const { data } = await send("POST", QUOTE, { params: { path: { run } }, body: asked, signal });
      return data as Quote;
    },
    enabled: settled !== null && settled === text,
  });
  const isSettled = settled === text && settled !== null;
  return {
    quote: isSettled ? query.data : undefined,
    problem: isSettled && query.error ? asProblem(query.error) : null,
    again: () => void query.refetch(),
  };
}

/** The text once it has stayed the same for a moment. The first is taken at once. */
function useSettledText(text: string | null): string | null {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
