import type { Body } from "@/api/bodies";
import { type Row, useCommand, useList } from "@/api/queries";
import { FormAction } from "@/parts/Action";
import type { Schema } from "@/parts/schema";

type Schedule = Row<"/api/v1/schedules">;
type Sent = Body<"/api/v1/schedules">;

/** The form of a new schedule, or of one that is to change: then the name is fixed, and what the form leaves out stays. */
export function SetSchedule({ label, row }: { label: string; row?: Schedule }) {
  const command = useCommand("/api/v1/schedules", { touches: ["/api/v1/schedules", "/api/v1/schedules/{name}"] });
  const workflows = useList("/api/v1/workflows", { query: { limit: 1000 } });
  const names = [...new Set(workflows.rows.map((each) => each.workflow))];
  const schema: Schema = {
    type: "object",
    required: ["workflow", "cron", "timezone", "overlap"].concat(row ? [] : ["name"]),
    properties: {
      ...(row ? {} : { name: { type: "string", title: "Name", minLength: 1 } }),
      workflow: names.length > 0 ? { enum: names, title: "Workflow" } : { type: "string", title: "Workflow" },
      cron: {
        type: "string",
        title: "Cron line",
        description: "Minute, hour, day, month, weekday, like 30 2 * * MON-FRI; six fields have seconds first.",
        minLength: 1,
      },
      timezone: { type: "string", title: "Time zone", description: "Like Europe/Berlin.", default: "UTC" },
      input: { title: "Input of each run" },
      time_field: { type: "string", title: "Field of the input that is set to the scheduled time" },
      cost_limit_usd: { type: "string", title: "Cost limit of each run, in dollars", pattern: "^\\d+(\\.\\d{1,9})?$" },
      overlap: {
        enum: ["skip", "queue", "allow", "cancel"],
        title: "While the previous run is active",
        default: "skip",
      },
      catch_up_s: { type: "number", title: "Leave out times missed by more seconds than", default: 3600, minimum: 0 },
      jitter_s: { type: "number", title: "Most seconds of delay", default: 0, minimum: 0 },
    },
  };
  const initial = row ? kept(row) : undefined;
  return (
    <FormAction
      label={label}
      needs="operator"
      look={row ? undefined : "primary"}
      title={row ? `Change schedule ${row.name}` : "New schedule"}
      command={command}
      schema={schema}
      {...(initial ? { initial } : {})}
      {...(row ? {} : { draft: "schedule" })}
      submit={row ? "Change the schedule" : "Create the schedule"}
      isWide
      run={(value) => command.run({ body: { ...settingsOf(row), ...(value as Sent) } })}
    />
  );
}

type Kept = Omit<Schedule, "name" | "tenant" | "version" | "team" | "team_budget" | "agent">;

function kept(row: Schedule): Partial<Kept> {
  const { workflow, cron, timezone, input, time_field, cost_limit_usd, overlap, catch_up_s, jitter_s } = row;
  return withoutNulls({ workflow, cron, timezone, time_field, cost_limit_usd, overlap, catch_up_s, jitter_s, input });
}

/** What the form does not show, and must not be lost by a change. */
function settingsOf(row: Schedule | undefined): Partial<Sent> {
  if (!row) return {};
  const { name, tenant, version, team, team_budget, agent } = row;
  return withoutNulls({ name, tenant, version, team, team_budget, agent }) as Partial<Sent>;
}

function withoutNulls<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== null || name === "input")) as T;
}
