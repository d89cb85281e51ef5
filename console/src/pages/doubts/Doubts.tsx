import { useId, useRef, useState } from "react";
import { Link } from "react-router";
import { type Row, useCommand, useList, useRow } from "@/api/queries";
import { ActionButton, ConfirmDialog, FormDialog } from "@/parts/Action";
import { AnswerFields } from "@/parts/AnswerFields";
import { places } from "@/parts/amount";
import { judged, type Answer as Unformed } from "@/parts/answer";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import type { Filter } from "@/parts/filters";
import { Json } from "@/parts/Json";
import { List } from "@/parts/ListPage";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Tabs, useTab } from "@/parts/Tabs";
import { Time } from "@/parts/Time";
import "@/parts/Form.css";
import "./Doubts.css";

type Doubt = Row<"/api/v1/doubts">;
type Effect = Row<"/api/v1/effects">;

const DECIDES = ["reviewer", "operator"] as const;
const EVERY_MS = 5_000;
const OF_RUN: readonly Filter[] = [{ name: "run", title: "Run id" }];

/** Calls whose outcome or cost is unknown until a person states it. */
export default function Doubts() {
  const models = useList("/api/v1/doubts", { query: { limit: 1 } }, { every: EVERY_MS });
  const tools = useList("/api/v1/effects", { query: { state: "in_doubt", limit: 1 } }, { every: EVERY_MS });
  const some = (list: { rows: readonly unknown[] }) =>
    list.rows.length > 0 ? <Status status="in_doubt" words="some" /> : null;
  const tabs = {
    name: "of",
    tabs: [
      { value: "models", title: <>Cost of model calls {some(models)}</> },
      { value: "tools", title: <>Outcome of tool calls {some(tools)}</> },
    ],
  } as const;
  return (
    <Page title="Doubts">
      <Tabs label="Calls in doubt" {...tabs} />
      {useTab(tabs) === "tools" ? <Tools /> : <Models />}
    </Page>
  );
}

function run(id: string, step: string) {
  return (
    <Link to={`/runs/${id}`}>
      <code>
        {shortRun(id)} / {step}
      </code>
    </Link>
  );
}

interface Acting<R> {
  row: R;
  onClose: () => void;
}

/* A dialog stands beside the list, so that it stays when somebody else has decided and its row is gone. */

function Models() {
  const [stating, setStating] = useState<Doubt | null>(null);
  const { rows } = useList("/api/v1/doubts", {}, { every: EVERY_MS });
  const widest = places(rows.map((row) => row.hold_usd));
  const columns: readonly Column<Doubt>[] = [
    {
      name: "model",
      title: "Model",
      width: "minmax(0, 1.1fr)",
      narrow: "main",
      cell: (row) => (
        <strong>
          <ForeignText text={row.model} />
        </strong>
      ),
    },
    {
      name: "run",
      title: "Run",
      width: "minmax(0, 1.6fr)",
      cell: (row) => (
        <>
          <ForeignText text={row.workflow} /> {run(row.run_id, row.step)}
        </>
      ),
    },
    {
      name: "hold",
      title: "At most",
      width: "110px",
      isNumber: true,
      cell: (row) => <Money usd={row.hold_usd} places={widest} />,
    },
    { name: "since", title: "In doubt", width: "104px", cell: (row) => <Time at={row.in_doubt_since} /> },
    {
      name: "error",
      title: "Why",
      width: "minmax(0, 2fr)",
      narrow: "main",
      cell: (row) => <ForeignText text={row.error} />,
    },
    {
      name: "act",
      title: "",
      width: "120px",
      cell: (row) => <ActionButton label="State cost…" needs="admin" onClick={() => setStating(row)} />,
    },
  ];
  return (
    <>
      <List
        title="Model calls of unknown cost"
        noun="model calls of unknown cost"
        path="/api/v1/doubts"
        filters={OF_RUN}
        columns={columns}
        idOf={(row) => row.call}
        tenantOf={(row) => row.tenant}
        every={EVERY_MS}
        hint="The cost of every call is known. A call whose reply is lost counts as spent until you state its cost."
      />
      {stating ? <Reconcile row={stating} onClose={() => setStating(null)} /> : null}
    </>
  );
}

function Reconcile({ row, onClose }: Acting<Doubt>) {
  const command = useCommand("/api/v1/doubts/{call}/reconcile");
  return (
    <FormDialog
      onClose={onClose}
      title={`Cost of the call to ${row.model}`}
      words={`Sent ${new Date(row.sent_at).toISOString()}, attempt ${row.attempt} of ${row.step}. It counts as $${row.hold_usd} now. The provider's usage page says what it cost.`}
      command={command}
      schema={{
        type: "object",
        required: ["cost_usd"],
        properties: {
          cost_usd: {
            type: "string",
            title: "Actual cost in dollars",
            description: "0 if nothing was charged. Up to nine places after the point.",
            pattern: "^\\d+(\\.\\d{1,9})?$",
          },
        },
      }}
      submit="State the cost"
      run={(value) => command.run({ path: { call: row.call }, body: value as { cost_usd: string } })}
    />
  );
}

const RESOLUTIONS = { answer: Answer, reject: NotDone, retry: Again } as const;
type Resolution = keyof typeof RESOLUTIONS;
const LABELS: Record<Resolution, string> = { answer: "It happened…", reject: "It did not…", retry: "Call again…" };

const EFFECTS: readonly Column<Effect>[] = [
  {
    name: "tool",
    title: "Tool",
    width: "minmax(0, 1fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.tool} />
      </strong>
    ),
  },
  { name: "policy", title: "Policy", width: "96px", cell: (row) => row.policy },
  { name: "run", title: "Run", width: "minmax(0, 1.2fr)", cell: (row) => run(row.run_id, row.step) },
  {
    name: "request",
    title: "Arguments",
    width: "minmax(0, 1.8fr)",
    narrow: "main",
    cell: (row) => <ForeignText text={JSON.stringify(row.request)?.slice(0, 200) ?? ""} />,
  },
  { name: "at", title: "Intended", width: "104px", cell: (row) => <Time at={row.intended_at} /> },
];

function Tools() {
  const [acting, setActing] = useState<{ row: Effect; resolution: Resolution } | null>(null);
  const columns: readonly Column<Effect>[] = [
    ...EFFECTS,
    {
      name: "act",
      title: "",
      width: "340px",
      narrow: "main",
      cell: (row) => (
        <span className="line">
          {(Object.keys(RESOLUTIONS) as Resolution[]).map((resolution) => (
            <ActionButton
              key={resolution}
              label={LABELS[resolution]}
              needs={DECIDES}
              look={resolution === "retry" ? "danger" : undefined}
              onClick={() => setActing({ row, resolution })}
            />
          ))}
        </span>
      ),
    },
  ];
  return (
    <>
      <List
        title="Tool calls of unknown outcome"
        noun="tool calls of unknown outcome"
        path="/api/v1/effects"
        query={{ state: "in_doubt" }}
        filters={OF_RUN}
        columns={columns}
        idOf={(row) => row.call}
        every={EVERY_MS}
        hint="A call whose outcome is lost waits here for a person, if its tool must not be called twice."
      />
      {acting ? <Resolving {...acting} onClose={() => setActing(null)} /> : null}
    </>
  );
}

interface Deciding extends Acting<Effect> {
  /** Hash of what the question about the call shows: a decision counts for that alone. */
  shownHash: string;
}

/** The dialog of a decision, as soon as the open question about the call has been read. */
function Resolving({ row, resolution, onClose }: Acting<Effect> & { resolution: Resolution }) {
  const gates = useList("/api/v1/gates", { query: { run: row.run_id, limit: 1_000 } });
  const id = gates.rows.find((each) => each.subject === row.call)?.gate_id;
  const gate = useRow("/api/v1/gates/{gate}", { path: { gate: id ?? "" } }, { enabled: id !== undefined });
  const shown = useRef<string | null>(null);
  shown.current ??= gate.row?.shown_hash ?? null;
  const Decision = RESOLUTIONS[resolution];
  if (shown.current !== null) return <Decision row={row} shownHash={shown.current} onClose={onClose} />;
  return (
    <Dialog isOpen onClose={onClose} title={`The call of ${row.tool}`}>
      <State
        isLoading={gates.isLoading || gate.isLoading}
        problem={gates.problem ?? gate.problem}
        isEmpty={id === undefined}
        noun="the question about it"
        empty={<p>No question about it is open: its step is about to look it up, or it is already decided.</p>}
      />
    </Dialog>
  );
}

function useResolve() {
  return useCommand("/api/v1/effects/{call}/resolution");
}

function Sent({ row }: { row: Effect }) {
  return (
    <>
      <p>
        <code>{row.tool}</code> was about to be called <Time at={row.intended_at} kind="exact" /> with key{" "}
        <code className="doubts-key">{row.key}</code>. {row.error ? <ForeignText text={row.error} /> : null}
      </p>
      <Json value={row.request} label="arguments" height="20vh" />
    </>
  );
}

/** The fields are those of the inbox, which asks about the same call. */
function Answer({ row, shownHash, onClose }: Deciding) {
  const command = useResolve();
  const [answer, setAnswer] = useState<Unformed>({});
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const id = useId();
  const send = async () => {
    const given = judged(answer);
    setWrong(given.isRight ? null : given.wrong);
    if (!given.isRight) return;
    const known = reason.trim();
    const body = { decision: "answer" as const, shown_hash: shownHash, response: given.data };
    try {
      const sent = await command.run({ path: { call: row.call }, body: known ? { ...body, reason: known } : body });
      if (sent !== undefined) onClose();
    } catch {
      // Shown by the dialog.
    }
  };
  return (
    <Dialog
      isOpen
      onClose={() => command.isBusy || onClose()}
      title={`The call of ${row.tool} took effect`}
      words="The run goes on with the response that you state. The tool is not called again."
    >
      <form
        className="form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!command.isBusy) void send();
        }}
      >
        <Sent row={row} />
        <AnswerFields
          label={`Response of ${row.tool}`}
          value={answer}
          change={(next) => setAnswer({ ...answer, ...next })}
        />
        <div className="form-field">
          <label htmlFor={id}>
            How you know<span className="faint"> (optional)</span>
          </label>
          <input id={id} className="field" value={reason} onChange={(event) => setReason(event.target.value)} />
        </div>
        {wrong ? (
          <p className="form-error" role="alert">
            {wrong}
          </p>
        ) : null}
        <State problem={command.problem} />
        <div className="dialog-foot">
          <button type="button" className="btn" disabled={command.isBusy} onClick={onClose}>
            Back
          </button>
          <button type="submit" className="btn good" disabled={command.isBusy}>
            {command.isBusy ? "Sending…" : "State that it happened"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function NotDone({ row, shownHash, onClose }: Deciding) {
  const command = useResolve();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`The call of ${row.tool} did not take effect?`}
      confirm="State that it did not happen"
      command={command}
      run={() => command.run({ path: { call: row.call }, body: { decision: "reject", shown_hash: shownHash } })}
    >
      <p>The call fails in the run, which handles that as any failure of the tool. The tool is not called again.</p>
      <Sent row={row} />
    </ConfirmDialog>
  );
}

function Again({ row, shownHash, onClose }: Deciding) {
  const command = useResolve();
  return (
    <ConfirmDialog
      onClose={onClose}
      look="danger"
      title={`Call ${row.tool} again?`}
      confirm="Call it again"
      command={command}
      run={() => command.run({ path: { call: row.call }, body: { decision: "retry", shown_hash: shownHash } })}
    >
      <p>The tool is called once more with the same key. If the first call took effect, it may happen twice.</p>
      <Sent row={row} />
    </ConfirmDialog>
  );
}
