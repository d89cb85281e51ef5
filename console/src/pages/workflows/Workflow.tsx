import { lazy, Suspense, useMemo, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import type { Schemas } from "@/api/client";
import { useCommand, useRow } from "@/api/queries";
import { drawingOf, factsOf, processesOf } from "@/pages/workflows/definition";
import { ActionButton } from "@/parts/Action";
import { useAddress } from "@/parts/address";
import { CopyButton } from "@/parts/CopyButton";
import { Dialog } from "@/parts/Dialog";
import { Facts } from "@/parts/Facts";
import { Form, forgetDraft } from "@/parts/Form";
import { Json } from "@/parts/Json";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { fieldOf, type Schema } from "@/parts/schema";
import { Time } from "@/parts/Time";
import "./Workflow.css";

type Whole = Schemas["WorkflowWhole"];
const Graph = lazy(() => import("@/parts/graph/Graph"));

/** A workflow: its graph, what its input must fit, and the form that starts a run of it. */
export default function Workflow() {
  const { name = "" } = useParams();
  const [version] = useAddress("version");
  const query = /^\d+$/.test(version) ? { version: Number(version) } : {};
  const { row, isLoading, problem, again } = useRow("/api/v1/workflows/{name}", { path: { name }, query });
  return (
    <Page
      title={row?.workflow ?? "Workflow"}
      above={
        <span className="faint">
          <Link className="plain" to="/workflows">
            Workflows
          </Link>{" "}
          /
        </span>
      }
      facts={row ? <span className="muted">version {row.version}</span> : null}
      actions={
        row ? (
          <>
            <Link className="btn" to={`/runs?q=${encodeURIComponent(`workflow:${row.workflow}`)}`}>
              Its runs
            </Link>
            <Start row={row} />
          </>
        ) : null
      }
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the workflow">
        {row ? <Content row={row} /> : null}
      </State>
    </Page>
  );
}

function Content({ row }: { row: Whole }) {
  const drawing = useMemo(() => drawingOf(row.definition), [row.definition]);
  return (
    <div className="workflow">
      <div className="grid">
        {drawing.nodes.length > 1 ? (
          <Suspense fallback={<State isLoading noun="the graph" />}>
            <Graph drawing={drawing} label={`Graph of ${row.workflow}`} />
          </Suspense>
        ) : (
          <p className="card muted">
            This workflow is one function: it has no graph beforehand. The graph of each run shows what it did.
          </p>
        )}
      </div>
      <div className="grid">
        <section className="card">
          <h2>The workflow</h2>
          <Facts
            facts={[
              ["run by", processesOf(row)],
              ["from", row.tenant === null ? "code" : `a file of ${row.tenant}`],
              ["first loaded", row.loaded_at ? <Time key="at" at={row.loaded_at} kind="exact" /> : null],
              [
                "definition",
                <span key="hash">
                  <code className="faint">{row.graph_hash.slice(0, 12)}</code>{" "}
                  <CopyButton text={row.graph_hash} label="Copy the hash of the definition" />
                </span>,
              ],
              ...factsOf(row.definition),
            ]}
          />
        </section>
        <section className="card">
          <h2>Input</h2>
          {row.input_schema ? (
            <Json value={row.input_schema} label="the input's schema" height="44vh" />
          ) : (
            <p className="muted">Anything: the workflow declares no schema.</p>
          )}
        </section>
      </div>
    </div>
  );
}

const AMOUNT = "^\\d+(\\.\\d{1,9})?$";

/** The button that starts a run, and opens it. */
function Start({ row }: { row: Whole }) {
  const [isOpen, setOpen] = useState(false);
  const command = useCommand("/api/v1/runs");
  const navigate = useNavigate();
  const draft = `start ${row.workflow} ${row.version}`;
  const close = () => {
    setOpen(false);
    command.reset();
  };
  const send = async (value: unknown) => {
    const { input, key, cost_limit_usd } = value as { input: unknown; key?: string; cost_limit_usd?: string };
    const answer = await command.run({
      body: {
        workflow: row.workflow,
        version: row.version,
        input: input ?? null,
        ...(key ? { key } : {}),
        ...(cost_limit_usd ? { cost_limit_usd } : {}),
      },
    });
    if (!answer) return;
    forgetDraft(draft);
    void navigate(`/runs/${answer.run_id}`);
  };
  return (
    <>
      <ActionButton label="Start a run…" needs="operator" look="primary" onClick={() => setOpen(true)} />
      {isOpen ? (
        <Dialog
          isOpen
          onClose={close}
          title={`Start ${row.workflow}`}
          {...(row.processes === 0
            ? { words: "No living process can run it: the run waits until one has its code." }
            : {})}
          isWide
        >
          <Form
            schema={schemaOf(row.input_schema)}
            submit="Start the run"
            draft={draft}
            isBusy={command.isBusy}
            problem={command.problem}
            onSubmit={
              (value) => void send(value).catch(() => undefined) // shown by the form
            }
          />
        </Dialog>
      ) : null}
    </>
  );
}

/** The form: the input by its schema, whose definitions move to the root, and what belongs to the start. */
function schemaOf(input: Whole["input_schema"]): Schema {
  const { $defs, ...inner } = (input ?? {}) as Schema;
  const { kind } = fieldOf(inner, { $defs } as Schema);
  const isFreeText = kind === "text" && !inner.format && !inner.pattern && !inner.maxLength && !inner.anyOf;
  return {
    ...($defs ? { $defs } : {}),
    type: "object",
    required: input && inner.default === undefined ? ["input"] : [],
    properties: {
      input: {
        ...inner,
        title: kind === "object" ? "Input" : (inner.title ?? "Input"),
        ...(isFreeText ? { format: "text" } : {}),
      },
      key: { type: "string", title: "Start key", description: "A start with the same key returns the same run." },
      cost_limit_usd: { type: "string", title: "Cost limit, in dollars", pattern: AMOUNT },
    },
  };
}
