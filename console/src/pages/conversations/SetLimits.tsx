import { useCommand } from "@/api/queries";
import type { Whole } from "@/pages/conversations/words";
import { FormAction } from "@/parts/Action";

/** Changes what all runs of a conversation together may spend. Opening it again with limits is how the API does that. */
export function SetLimits({ row }: { row: Whole }) {
  const command = useCommand("/api/v1/conversations", { touches: ["/api/v1/conversations/{name}"] });
  const initial = {
    ...(row.limit_usd === null ? {} : { cost_limit_usd: row.limit_usd }),
    ...(row.max_tokens === null ? {} : { max_tokens: row.max_tokens }),
  };
  return (
    <FormAction
      label="Set limits…"
      needs="operator"
      title="Limits of this conversation"
      words="They hold for all of its runs together, from now on. A reply that waits for money goes on when it fits. A field left empty stays as it is."
      command={command}
      initial={initial}
      schema={{
        type: "object",
        properties: {
          cost_limit_usd: { type: "string", title: "Cost limit, in dollars", pattern: "^\\d+(\\.\\d{1,9})?$" },
          max_tokens: { type: "integer", title: "Tokens, sent and returned together", minimum: 1 },
        },
      }}
      submit="Set the limits"
      run={(value) => {
        const limits = value as { cost_limit_usd?: string; max_tokens?: number };
        return command.run({ body: { name: row.name, workflow: row.agent, tenant: row.tenant, ...limits } });
      }}
    />
  );
}
