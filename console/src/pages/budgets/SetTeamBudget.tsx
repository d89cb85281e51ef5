import type { Body } from "@/api/bodies";
import type { Schemas } from "@/api/client";
import { useCommand } from "@/api/queries";
import { FormAction } from "@/parts/Action";

type Whole = Schemas["TeamBudgetWhole"];
const TOUCHES = ["/api/v1/team-budgets", "/api/v1/team-budgets/{name}"] as const;

interface Given {
  name?: string;
  total_usd?: string;
  total_tokens?: number;
  agents: { name: string; priority: number }[];
}

/** The form of a new team budget, or of another total or other agents for one. */
export function SetTeamBudget({ label, row }: { label: string; row?: Whole }) {
  const command = useCommand("/api/v1/team-budgets", { touches: TOUCHES });
  const agents = Object.entries(row?.money?.agents ?? row?.tokens?.agents ?? {});
  const initial: Given | undefined = row
    ? {
        ...(row.money ? { total_usd: row.money.total_usd } : {}),
        ...(row.tokens ? { total_tokens: row.tokens.total_tokens } : {}),
        agents: agents.map(([name, each]) => ({ name, priority: each.priority })),
      }
    : undefined;
  return (
    <FormAction
      label={label}
      needs="admin"
      look={row ? undefined : "primary"}
      title={row ? `Change team budget ${row.name}` : "New team budget"}
      words={
        row
          ? "The total is allotted again among the agents; no agent gets less than it has used."
          : "The total is allotted among the agents once, by their priorities."
      }
      command={command}
      schema={{
        type: "object",
        required: row ? ["agents"] : ["name", "agents"],
        properties: {
          ...(row ? {} : { name: { type: "string", title: "Name", minLength: 1 } }),
          total_usd: { type: "string", title: "Total in dollars", pattern: "^\\d+(\\.\\d{1,9})?$" },
          total_tokens: { type: "integer", title: "Total in tokens", minimum: 0 },
          agents: {
            type: "array",
            title: "Agents",
            minItems: 1,
            items: {
              type: "object",
              required: ["name", "priority"],
              properties: {
                name: { type: "string", title: "Agent", minLength: 1 },
                priority: { type: "number", title: "Priority", exclusiveMinimum: 0, default: 1 },
              },
            },
          },
        },
      }}
      {...(initial ? { initial } : {})}
      submit={row ? "Allot it again" : "Create the budget"}
      run={(value) => command.run({ body: bodyOf(value as Given, row) })}
    />
  );
}

function bodyOf(given: Given, row: Whole | undefined): Body<"/api/v1/team-budgets"> {
  const agents = Object.fromEntries(given.agents.map((each) => [each.name, { priority: each.priority }]));
  const { total_usd, total_tokens } = given;
  return {
    name: row?.name ?? given.name ?? "",
    agents,
    ...(total_usd ? { total_usd } : {}),
    ...(total_tokens === undefined ? {} : { total_tokens }),
    ...(row ? { tenant: row.tenant } : {}),
  } as Body<"/api/v1/team-budgets">;
}
