import { useCommand, useList } from "@/api/queries";
import { commandOf, type Rule, SETTABLE, type Sent } from "@/pages/notifications/rule";
import { FormAction } from "@/parts/Action";
import { CopyButton } from "@/parts/CopyButton";
import type { Schema } from "@/parts/schema";
import "./SetRule.css";

const RULES = "/api/v1/notifications/rules";
const TOUCHES = [RULES, "/api/v1/notifications/deliveries"] as const;

/** What the form holds: labels as texts, and whether a test is sent. */
type Given = Partial<Omit<Sent, "labels">> & { labels?: string[]; test?: boolean };

const LABEL: Schema = { type: "string", pattern: "^[^=]+=.+$", title: "KEY=VALUE" };

function schemaOf(row: Rule | undefined, channels: readonly string[], isForAll: boolean): Schema {
  const fields: Record<Exclude<keyof Sent, "name" | "tenant">, Schema> = {
    occasions: {
      type: "array",
      title: "Notify when",
      minItems: 1,
      uniqueItems: true,
      items: { oneOf: SETTABLE.map(([name, words]) => ({ const: name, title: words })) },
    },
    channel: { enum: [...channels], title: "Channel", ...(channels[0] ? { default: channels[0] } : {}) },
    to: {
      type: "array",
      title: "Mail recipients",
      description:
        "People of the settings, mail addresses, or @asked for the reviewers; without any, those of the channel.",
      items: { type: "string", minLength: 1 },
    },
    workflows: {
      type: "array",
      title: "Workflow filter",
      description: "Only these workflows: names, or patterns like order*.",
      items: { type: "string", minLength: 1 },
    },
    labels: {
      type: "array",
      title: "Label filter",
      description: "Only runs with all of these, KEY=VALUE.",
      items: LABEL,
    },
    teams: { type: "array", title: "Team filter", items: { type: "string", minLength: 1 } },
    children: { type: "boolean", title: "Child runs too, when they end" },
    digest_s: {
      type: "number",
      title: "Seconds for which messages are gathered into one",
      description: "0 sends each by itself.",
      minimum: 0,
      maximum: 3600,
      default: 10,
    },
    title: {
      type: "string",
      title: "Title",
      description: "A template like {workflow}: {reason}. By default the event's own.",
      maxLength: 200,
    },
    details: { type: "boolean", title: "Include titles of questions and texts of errors" },
  };
  const name: Schema = { type: "string", title: "Name", minLength: 1, maxLength: 128 };
  const tenant: Schema = { type: "string", title: "Tenant", description: "By default: default." };
  return {
    type: "object",
    required: ["occasions", "channel", "digest_s"].concat(row ? [] : ["name"]),
    properties: {
      ...(row ? {} : { name }),
      ...(row || !isForAll ? {} : { tenant }),
      ...fields,
      test: { type: "boolean", title: "Send a test message when the rule is saved" },
    },
  };
}

/** The form of a new rule, or of one that is to change. */
export function SetRule({ label, row, isForAll }: { label: string; row?: Rule; isForAll: boolean }) {
  const set = useCommand(RULES, { touches: TOUCHES });
  const test = useCommand("/api/v1/notifications/rules/{name}/test", { touches: TOUCHES });
  const found = useList("/api/v1/notifications/channels");
  const names = found.rows.filter((each) => each.kind !== null || each.channel === row?.channel);
  const channels = [...new Set(names.map((each) => each.channel))];
  return (
    <FormAction
      key={channels.join()}
      label={label}
      needs="admin"
      look={row ? undefined : "primary"}
      title={row ? `Change the rule ${row.name}` : "New rule"}
      words="Each event becomes a message on the channel, which holdfast.toml declares."
      command={{
        isBusy: set.isBusy || test.isBusy,
        problem: set.problem ?? test.problem,
        reset: () => {
          set.reset();
          test.reset();
        },
      }}
      isDisabled={channels.length === 0}
      schema={schemaOf(row, channels, isForAll)}
      {...(row ? { initial: givenOf(row) } : {})}
      submit={row ? "Change the rule" : "Set the rule"}
      isWide
      consequence={(value) => <SameCommand command={commandOf(sentOf((value ?? {}) as Given, row))} />}
      run={async (value) => {
        const sent = sentOf(value as Given, row);
        const answer = await set.run({ body: sent });
        if (answer === undefined || !(value as Given).test) return answer;
        return test.run({ path: { name: sent.name }, body: sent.tenant ? { tenant: sent.tenant } : {} });
      }}
    />
  );
}

function SameCommand({ command }: { command: string }) {
  return (
    <p className="same-command">
      The same at the command line: <code>{command}</code> <CopyButton text={command} label="Copy the command" />
    </p>
  );
}

function givenOf(row: Rule): Given {
  const { occasions, channel, to, workflows, labels, teams, children, digest_s, title, details } = row;
  const lists = { to, workflows, teams, labels: Object.entries(labels).map(([key, value]) => `${key}=${value}`) };
  return {
    occasions,
    channel,
    ...Object.fromEntries(Object.entries(lists).filter(([, each]) => each.length > 0)),
    children,
    digest_s,
    ...(title === null ? {} : { title }),
    details,
  };
}

function sentOf(given: Given, row: Rule | undefined): Sent {
  const { test, labels, ...rest } = given;
  const pairs = (labels ?? []).map((each) => [each.slice(0, each.indexOf("=")), each.slice(each.indexOf("=") + 1)]);
  return {
    ...(rest as Omit<Sent, "labels">),
    ...(pairs.length > 0 ? { labels: Object.fromEntries(pairs) } : {}),
    ...(row ? { name: row.name, tenant: row.tenant } : {}),
  };
}
