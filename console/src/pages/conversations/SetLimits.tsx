import { useCommand } from "@/api/queries";
import type { Whole } from "@/pages/conversations/words";
import { LimitsForm } from "@/parts/LimitsForm";

/** Changes what all runs of a conversation together may spend. Opening it again with limits is how the API does that. */
export function SetLimits({ row }: { row: Whole }) {
  const command = useCommand("/api/v1/conversations", { touches: ["/api/v1/conversations/{name}"] });
  return (
    <LimitsForm
      label="Set limits…"
      needs="operator"
      title="Limits of this conversation"
      words="They hold for all of its runs together, from now on. A reply that waits for money goes on when it fits. A field left empty stays as it is."
      command={command}
      dollars={{ field: "cost_limit_usd", title: "Cost limit, in dollars" }}
      leastTokens={1}
      now={{ usd: row.limit_usd, tokens: row.max_tokens }}
      submit="Set the limits"
      run={(usd, tokens) => {
        const limits = {
          ...(usd === undefined ? {} : { cost_limit_usd: usd }),
          ...(tokens === undefined ? {} : { max_tokens: tokens }),
        };
        return command.run({ body: { name: row.name, workflow: row.agent, tenant: row.tenant, ...limits } });
      }}
    />
  );
}
