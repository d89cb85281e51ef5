import { useState } from "react";
import { Link } from "react-router";
import { type Row, useCommand, useList } from "@/api/queries";
import { ActionButton, ConfirmDialog, FormDialog } from "@/parts/Action";
import { places } from "@/parts/amount";
import { ForeignText } from "@/parts/ForeignText";
import type { Filter } from "@/parts/filters";
import { Json } from "@/parts/Json";
import { List } from "@/parts/ListPage";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Tabs, useTab } from "@/parts/Tabs";
import { Time } from "@/parts/Time";
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

const DEEDS = { answer: Answer, reject: NotDone, retry: Again } as const;
type Deed = keyof typeof DEEDS;
const LABELS: Record<Deed, string> = { answer: "It happened…", reject: "It did not…", retry: "Call again…" };

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
  const [acting, setActing] = useState<{ row: Effect; deed: Deed } | null>(null);
  const Dialog = acting ? DEEDS[acting.deed] : null;
  const columns: readonly Column<Effect>[] = [
    ...EFFECTS,
    {
      name: "act",
      title: "",
      width: "340px",
      narrow: "main",
      cell: (row) => (
        <span className="line">
          {(Object.keys(DEEDS) as Deed[]).map((deed) => (
            <ActionButton
              key={deed}
              label={LABELS[deed]}
              needs={DECIDES}
              look={deed === "retry" ? "danger" : undefined}
              onClick={() => setActing({ row, deed })}
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
      {acting && Dialog ? <Dialog row={acting.row} onClose={() => setActing(null)} /> : null}
    </>
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

function Answer({ row, onClose }: Acting<Effect>) {
  const command = useResolve();
  return (
    <FormDialog
      onClose={onClose}
      title={`The call of ${row.tool} took effect`}
      words="The run goes on with the response that you state. The tool is not called again."
      command={command}
      schema={{
        type: "object",
        properties: { response: { title: "Response of the tool" }, reason: { type: "string", title: "How you know" } },
      }}
      submit="State that it happened"
      consequence={() => <Sent row={row} />}
      run={(value) =>
        command.run({ path: { call: row.call }, body: { decision: "answer", ...(value as { reason?: string }) } })
      }
    />
  );
}

function NotDone({ row, onClose }: Acting<Effect>) {
  const command = useResolve();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`The call of ${row.tool} did not take effect?`}
      confirm="State that it did not happen"
      command={command}
      run={() => command.run({ path: { call: row.call }, body: { decision: "reject" } })}
    >
      <p>The call fails in the run, which handles that as any failure of the tool. The tool is not called again.</p>
      <Sent row={row} />
    </ConfirmDialog>
  );
}

function Again({ row, onClose }: Acting<Effect>) {
  const command = useResolve();
  return (
    <ConfirmDialog
      onClose={onClose}
      look="danger"
      title={`Call ${row.tool} again?`}
      confirm="Call it again"
      command={command}
      run={() => command.run({ path: { call: row.call }, body: { decision: "retry" } })}
    >
      <p>The tool is called once more with the same key. If the first call took effect, it may happen twice.</p>
      <Sent row={row} />
    </ConfirmDialog>
  );
}
