import type { ComponentProps } from "react";
import { FormAction } from "@/parts/Action";

type Form = ComponentProps<typeof FormAction>;

interface Props extends Omit<Form, "schema" | "initial" | "run"> {
  /** The field of the request that has the dollars, and its words. */
  dollars: { field: string; title: string };
  leastTokens: number;
  /** The limits as they are; null for none. */
  now: { usd: string | null; tokens: number | null };
  run: (usd: string | undefined, tokens: number | undefined) => Promise<unknown>;
}

/** A button with the form of a limit in dollars and of one in tokens, either of which may be left empty. */
export function LimitsForm({ dollars, leastTokens, now, run, ...form }: Props) {
  const { field } = dollars;
  return (
    <FormAction
      {...form}
      initial={{
        ...(now.usd === null ? {} : { [field]: now.usd }),
        ...(now.tokens === null ? {} : { max_tokens: now.tokens }),
      }}
      schema={{
        type: "object",
        properties: {
          [field]: { type: "string", title: dollars.title, pattern: "^\\d+(\\.\\d{1,9})?$" },
          max_tokens: { type: "integer", title: "Tokens, sent and returned together", minimum: leastTokens },
        },
      }}
      run={(value) => {
        const given = value as Record<string, string | undefined> & { max_tokens?: number };
        return run(given[field], given.max_tokens);
      }}
    />
  );
}
