import { useState } from "react";
import { useCaller } from "@/api/caller";
import { type Row, useCommand, useList } from "@/api/queries";
import { OCCASIONS, type Rule } from "@/pages/notifications/rule";
import { SetRule } from "@/pages/notifications/SetRule";
import { ActionButton, ConfirmDialog } from "@/parts/Action";
import { ForeignText } from "@/parts/ForeignText";
import type { Filter } from "@/parts/filters";
import { List } from "@/parts/ListPage";
import { Page } from "@/parts/Page";
import { RunLink } from "@/parts/RunLink";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Tabs, useTab } from "@/parts/Tabs";
import { Time } from "@/parts/Time";

type Delivery = Row<"/api/v1/notifications/deliveries">;
type Channel = Row<"/api/v1/notifications/channels">;

const EVERY_MS = 5_000;
const LOOKS: Record<Delivery["state"], string> = { waiting: "waiting", sent: "completed", dead: "failed" };

/** What is sent to people and other systems: the messages, the rules that make them, and the channels. */
export default function Notifications() {
  const dead = useList("/api/v1/notifications/deliveries", { query: { state: "dead", limit: 1 } }, { every: EVERY_MS });
  const tabs = {
    name: "of",
    tabs: [
      {
        value: "messages",
        title: <>Messages {dead.rows.length > 0 ? <Status status="failed" words="some dead" /> : null}</>,
      },
      { value: "rules", title: "Rules" },
      { value: "channels", title: "Channels" },
    ],
  } as const;
  const tab = useTab(tabs);
  const isForAll = useCaller()?.tenant === null;
  return (
    <Page title="Notifications" actions={tab === "rules" ? <SetRule label="New rule…" isForAll={isForAll} /> : null}>
      <Tabs label="Notifications" {...tabs} />
      {tab === "rules" ? <Rules /> : tab === "channels" ? <Channels /> : <Messages />}
    </Page>
  );
}

const OF_MESSAGES: readonly Filter[] = [
  {
    name: "state",
    title: "State",
    choices: [
      { value: "", words: "any" },
      { value: "waiting", words: "waiting" },
      { value: "sent", words: "sent" },
      { value: "dead", words: "dead" },
    ],
  },
  { name: "channel", title: "Channel" },
  { name: "run", title: "Run id" },
];

function Messages() {
  const [sending, setSending] = useState<Delivery | null>(null);
  const command = useCommand("/api/v1/notifications/deliveries/{delivery}/replay");
  const columns: readonly Column<Delivery>[] = [
    {
      name: "state",
      title: "State",
      width: "96px",
      cell: (row) => <Status status={LOOKS[row.state]} words={row.state} />,
    },
    {
      name: "title",
      title: "Message",
      width: "minmax(0, 3.5fr)",
      narrow: "main",
      cell: (row) => (
        <>
          <ForeignText text={row.title} />
          {row.problem && row.state !== "sent" ? (
            <span className="faint">
              {" "}
              <ForeignText text={row.problem} />
            </span>
          ) : null}
        </>
      ),
    },
    {
      name: "channel",
      title: "Channel",
      width: "minmax(0, 0.8fr)",
      cell: (row) => <ForeignText text={row.channel} />,
    },
    {
      name: "rule",
      title: "Rule",
      width: "minmax(0, 0.8fr)",
      narrow: "none",
      cell: (row) => <ForeignText text={row.rule} />,
    },
    {
      name: "run",
      title: "Run",
      width: "110px",
      cell: (row) => (row.run_id ? <RunLink run={row.run_id} /> : "–"),
    },
    { name: "attempts", title: "Tries", width: "60px", isNumber: true, narrow: "none", cell: (row) => row.attempts },
    {
      name: "at",
      title: "Next or last try",
      width: "124px",
      cell: (row) => <Time at={row.ended_at ?? row.due_at} />,
    },
    {
      name: "act",
      title: "",
      width: "130px",
      cell: (row) =>
        row.state === "dead" ? (
          <ActionButton label="Send again…" needs="admin" onClick={() => setSending(row)} />
        ) : null,
    },
  ];
  return (
    <>
      <List
        title="Messages"
        noun="messages"
        path="/api/v1/notifications/deliveries"
        filters={OF_MESSAGES}
        columns={columns}
        idOf={(row) => row.id}
        tenantOf={(row) => row.tenant}
        every={EVERY_MS}
        isNewestFirst
        hint="Messages are made by rules, and by starts with on_end. Sent ones are listed for a week, dead ones for 30 days."
      />
      {sending ? (
        <ConfirmDialog
          onClose={() => setSending(null)}
          title="Send this message again?"
          confirm="Send it again"
          command={command}
          run={() => command.run({ path: { delivery: sending.id } })}
        >
          <p>
            The channel {sending.channel} gets the same message under the same id, with all its tries. The last one
            failed: <ForeignText text={sending.problem ?? "no reason is known"} />
          </p>
        </ConfirmDialog>
      ) : null}
    </>
  );
}

function Rules() {
  const [removing, setRemoving] = useState<Rule | null>(null);
  const [testing, setTesting] = useState<Rule | null>(null);
  const isForAll = useCaller()?.tenant === null;
  const remove = useCommand("/api/v1/notifications/rules/{name}", { method: "delete" });
  const test = useCommand("/api/v1/notifications/rules/{name}/test");
  const columns: readonly Column<Rule>[] = [
    {
      name: "name",
      title: "Rule",
      width: "minmax(0, 1fr)",
      narrow: "main",
      cell: (row) => (
        <strong>
          <ForeignText text={row.name} />
        </strong>
      ),
    },
    {
      name: "occasions",
      title: "Notifies of",
      width: "minmax(0, 2.4fr)",
      narrow: "main",
      cell: (row) => row.occasions.map((each) => OCCASIONS[each]).join(" · "),
    },
    {
      name: "channel",
      title: "Channel",
      width: "minmax(0, 0.8fr)",
      cell: (row) => <ForeignText text={row.channel} />,
    },
    {
      name: "to",
      title: "Recipients",
      width: "minmax(0, 1fr)",
      narrow: "none",
      cell: (row) => (row.to.length ? <ForeignText text={row.to.join(", ")} /> : "the channel's"),
    },
    {
      name: "only",
      title: "Only",
      width: "minmax(0, 1fr)",
      narrow: "none",
      cell: (row) => <ForeignText text={only(row)} />,
    },
    {
      name: "set",
      title: "Set",
      width: "110px",
      narrow: "none",
      cell: (row) => (row.source === "file" ? <code>holdfast.toml</code> : <Time at={row.set_at} />),
    },
    {
      name: "act",
      title: "",
      width: "260px",
      cell: (row) => (
        <span className="line">
          <ActionButton label="Test…" needs="admin" onClick={() => setTesting(row)} />
          {row.source === "file" ? null : (
            <>
              <SetRule label="Change…" row={row} isForAll={isForAll} />
              <ActionButton label="Remove…" needs="admin" look="danger" onClick={() => setRemoving(row)} />
            </>
          )}
        </span>
      ),
    },
  ];
  const of = (rule: Rule) => ({ path: { name: rule.name }, query: { tenant: rule.tenant } });
  return (
    <>
      <List
        title="Rules"
        noun="rules"
        path="/api/v1/notifications/rules"
        columns={columns}
        idOf={(row) => `${row.tenant} ${row.name}`}
        tenantOf={(row) => row.tenant}
        every={EVERY_MS}
        hint={
          <>
            A rule says who is notified of what. It needs a channel of <code>holdfast.toml</code>, which can have rules
            too.
          </>
        }
      />
      {testing ? (
        <ConfirmDialog
          onClose={() => setTesting(null)}
          title={`Test the rule ${testing.name}?`}
          confirm="Send a test message"
          command={test}
          run={() => test.run({ path: { name: testing.name }, body: { tenant: testing.tenant } })}
        >
          <p>The channel {testing.channel} sends a test message to the recipients of this rule.</p>
        </ConfirmDialog>
      ) : null}
      {removing ? (
        <ConfirmDialog
          onClose={() => setRemoving(null)}
          title={`Remove the rule ${removing.name}?`}
          confirm="Remove the rule"
          look="danger"
          command={remove}
          run={() => remove.run(of(removing))}
        >
          <p>Nobody is notified by it any more. Messages that it has made are still sent.</p>
        </ConfirmDialog>
      ) : null}
    </>
  );
}

/** What a rule is limited to. */
function only(rule: Rule): string {
  const labels = Object.entries(rule.labels).map(([key, value]) => `${key}=${value}`);
  return [...rule.workflows, ...labels, ...rule.teams.map((team) => `team ${team}`)].join(", ") || "–";
}

function Channels() {
  const [enabling, setEnabling] = useState<Channel | null>(null);
  const enable = useCommand("/api/v1/notifications/channels/{channel}/enable");
  const columns: readonly Column<Channel>[] = [
    {
      name: "channel",
      title: "Channel",
      width: "minmax(0, 1.4fr)",
      narrow: "main",
      cell: (row) => (
        <>
          <strong>
            <ForeignText text={row.channel} />
          </strong>{" "}
          <span className="faint">
            <ForeignText text={row.address} />
          </span>
        </>
      ),
    },
    { name: "kind", title: "Kind", width: "90px", cell: (row) => row.kind ?? "not in the settings" },
    ...(["sent", "failed", "waiting", "dead"] as const).map((name) => ({
      name,
      title: { sent: "Sent", failed: "Failed tries", waiting: "Waiting", dead: "Dead" }[name],
      width: "96px",
      isNumber: true,
      cell: (row: Channel) => row[name] ?? "–",
    })),
    {
      name: "disabled",
      title: "Disabled",
      width: "minmax(0, 1fr)",
      cell: (row) =>
        row.disabled_at ? (
          <>
            <Time at={row.disabled_at} /> <ForeignText text={row.problem ?? ""} />
          </>
        ) : null,
    },
    {
      name: "act",
      title: "",
      width: "110px",
      cell: (row) =>
        row.disabled_at ? <ActionButton label="Enable…" needs="admin" onClick={() => setEnabling(row)} /> : null,
    },
  ];
  return (
    <>
      <List
        title="Channels"
        noun="channels"
        path="/api/v1/notifications/channels"
        columns={columns}
        idOf={(row) => `${row.channel} ${row.address}`}
        every={EVERY_MS}
        hint={
          <>
            Declare a channel in <code>holdfast.toml</code>, as <code>[channels.NAME]</code>.
          </>
        }
      />
      {enabling ? (
        <ConfirmDialog
          onClose={() => setEnabling(null)}
          title={`Send to ${enabling.channel} again?`}
          confirm="Enable the channel"
          command={enable}
          run={() => enable.run({ path: { channel: enabling.channel }, body: { address: enabling.address } })}
        >
          <p>
            Its receiver has answered that it wants no more messages: <ForeignText text={enabling.problem ?? "410"} />.
            Waiting messages are sent when it is enabled.
          </p>
        </ConfirmDialog>
      ) : null}
    </>
  );
}
