import { useEffect, useId, useState } from "react";
import { useNavigate } from "react-router";
import { useMay } from "@/api/caller";
import type { Schemas } from "@/api/client";
import { useCommand, useList } from "@/api/queries";
import { addressOf, BUSY_WORDS, ON_BUSY, type OnBusy } from "@/pages/conversations/words";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import { useKeys } from "@/parts/keys";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";
import "@/parts/Form.css";

type Conversation = Schemas["ConversationRow"];
const EVERY_MS = 3_000;
const idOf = (row: Conversation) => `${row.tenant}/${row.name}`;

/** The conversations with agents. */
export default function Conversations() {
  const list = useList("/api/v1/conversations", { query: { limit: 200 } }, { every: EVERY_MS });
  const [isOpening, setOpening] = useState(false);
  const mayOpen = useMay("operator");
  useKeys([{ key: "n", words: "New conversation", run: () => mayOpen && setOpening(true) }]);
  const columns: Column<Conversation>[] = [
    {
      name: "name",
      title: "Conversation",
      width: "minmax(180px, 2fr)",
      narrow: "main",
      cell: (row) => (
        <strong>
          <ForeignText text={row.name} />
        </strong>
      ),
    },
    { name: "agent", title: "Agent", width: "minmax(120px, 1fr)", cell: (row) => row.agent },
    {
      name: "state",
      title: "State",
      width: "150px",
      cell: (row) => <Activity row={row} />,
    },
    { name: "messages", title: "Messages", width: "80px", isNumber: true, narrow: "none", cell: (row) => row.messages },
    {
      name: "by",
      title: "Opened by",
      width: "120px",
      narrow: "none",
      cell: (row) => (row.by ? <ForeignText text={row.by} /> : <span className="faint">–</span>),
    },
    {
      name: "begun",
      title: "Opened",
      width: "90px",
      isNumber: true,
      cell: (row) => (
        <span className="faint">
          <Time at={row.begun_at} />
        </span>
      ),
    },
  ];
  return (
    <Page
      title="Conversations"
      actions={
        <button
          type="button"
          className="btn primary"
          disabled={!mayOpen}
          title={mayOpen ? undefined : "Requires the grant operator"}
          onClick={() => setOpening(true)}
        >
          New conversation
        </button>
      }
    >
      <State
        isLoading={list.isLoading}
        problem={list.problem}
        again={list.again}
        isEmpty={list.rows.length === 0}
        noun="conversations"
        hint="An agent is a workflow whose input is a chat. Open a conversation to talk to one."
      >
        <Table
          label="Conversations"
          columns={columns}
          rows={list.rows}
          idOf={idOf}
          linkOf={(row) => addressOf(row)}
          nameOf={(row) => `${row.name}, with ${row.agent}`}
          more={list.more}
          hasMore={list.hasMore}
        />
      </State>
      {isOpening ? <Opening onClose={() => setOpening(false)} /> : null}
    </Page>
  );
}

function Activity({ row }: { row: Conversation }) {
  if (row.active !== null) {
    const waiting = row.waiting.length > 0 ? `, ${row.waiting.length} queued` : "";
    return <Status status="running" words={`answering${waiting}`} />;
  }
  return <span className="faint">{row.messages === 0 ? "empty" : "answered"}</span>;
}

function Opening({ onClose }: { onClose: () => void }) {
  const workflows = useList("/api/v1/workflows", { query: { limit: 200 } });
  const command = useCommand("/api/v1/conversations", { touches: ["/api/v1/conversations"] });
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState("");
  const [onBusy, setOnBusy] = useState<OnBusy>("enqueue");
  const [limit, setLimit] = useState("");
  const id = useId();
  const { hasMore, more } = workflows;
  useEffect(() => {
    if (hasMore) more();
  }, [hasMore, more]);
  const names = [...new Set(workflows.rows.flatMap((row) => (row.talks ? row.workflow : [])))];
  const workflow = chosen || names[0] || "";
  const open = async () => {
    if (!name.trim() || !workflow || command.isBusy) return;
    const cost = limit.trim();
    try {
      await command.run({
        body: { name: name.trim(), workflow, on_busy: onBusy, ...(cost ? { cost_limit_usd: cost } : {}) },
      });
      void navigate(addressOf({ name: name.trim(), tenant: "default" }));
    } catch {
      // The problem stands in the dialog.
    }
  };
  return (
    <Dialog isOpen onClose={onClose} title="New conversation">
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          void open();
        }}
      >
        <div className="form-field">
          <label htmlFor={`${id}-name`}>Name</label>
          <input
            id={`${id}-name`}
            className="field"
            autoFocus
            required
            maxLength={128}
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <div className="form-field">
          <label htmlFor={`${id}-agent`}>Agent</label>
          <select
            id={`${id}-agent`}
            className="field"
            value={workflow}
            onChange={(event) => setChosen(event.target.value)}
          >
            {names.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
          <div className="hint">
            {names.length > 0 || workflows.isLoading || hasMore
              ? "A workflow whose input is a chat."
              : "No workflow here takes a chat. An agent is a workflow whose input is a Chat."}
          </div>
        </div>
        <div className="form-field">
          <label htmlFor={`${id}-busy`}>A message while the agent is at work</label>
          <select
            id={`${id}-busy`}
            className="field"
            value={onBusy}
            onChange={(event) => setOnBusy(event.target.value as OnBusy)}
          >
            {ON_BUSY.map((each) => (
              <option key={each} value={each}>
                {BUSY_WORDS[each].rule}
              </option>
            ))}
          </select>
        </div>
        <div className="form-field">
          <label htmlFor={`${id}-limit`}>
            Cost limit in dollars <span className="faint">(optional)</span>
          </label>
          <input
            id={`${id}-limit`}
            className="field"
            inputMode="decimal"
            autoComplete="off"
            value={limit}
            onChange={(event) => setLimit(event.target.value)}
          />
        </div>
        <State problem={command.problem ?? workflows.problem} />
        <div className="dialog-foot">
          <button type="button" className="btn" onClick={onClose}>
            Back
          </button>
          <button type="submit" className="btn primary" disabled={command.isBusy || !workflow}>
            {command.isBusy ? "Opening…" : "Open"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
