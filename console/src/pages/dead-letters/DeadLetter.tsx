import { Link, useParams } from "react-router";
import type { Schemas } from "@/api/client";
import { useCommand, useRow } from "@/api/queries";
import { LetterState, TOUCHES } from "@/pages/dead-letters/DeadLetters";
import { ConfirmAction, FormAction } from "@/parts/Action";
import { Changes } from "@/parts/Changes";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
import { Json } from "@/parts/Json";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import type { Schema } from "@/parts/schema";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Letter = Schemas["DeadLetterWhole"];
type Operation = Letter["operations"][number];
const ALSO = [...TOUCHES, "/api/v1/runs", "/api/v1/runs/{run}"] as const;

/** Everything about a step that has failed for good, and what can be done about it. */
export default function DeadLetter() {
  const { letter = "" } = useParams();
  const { row, tag, isLoading, problem, again } = useRow(
    "/api/v1/dead-letters/{letter}",
    { path: { letter } },
    { every: 5_000 },
  );
  return (
    <Page
      title={row ? `${row.workflow} / ${row.step}` : "Dead letter"}
      above={<Link to="/dead-letters">Dead letters</Link>}
      facts={row ? <LetterState row={row} /> : null}
      actions={row ? <Actions row={row} tag={tag} /> : null}
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the dead letter">
        {row ? <Details row={row} /> : null}
      </State>
    </Page>
  );
}

function Actions({ row, tag }: { row: Letter; tag: string | null }) {
  const retry = useCommand("/api/v1/dead-letters/{letter}/retry", { touches: ALSO });
  const resolve = useCommand("/api/v1/dead-letters/{letter}/resolve", { touches: ALSO });
  const given = { path: { letter: row.letter }, tag };
  const isOffered = row.state === "open";
  return (
    <>
      <EditInput row={row} tag={tag} />
      {row.arguments === null ? null : <EditArguments row={row} tag={tag} />}
      <ConfirmAction
        label="Retry…"
        isOffered={isOffered}
        needs="operator"
        look="primary"
        title={`Retry ${row.step}?`}
        confirm="Retry the step"
        command={retry}
        run={() => retry.run(given)}
      >
        <Consequence row={row} />
      </ConfirmAction>
      <FormAction
        label="Close…"
        isOffered={isOffered}
        needs="operator"
        look="danger"
        title={`Close the dead letter of ${row.step}`}
        words={
          row.asked
            ? "The step is not tried again. With an output the run goes on with it; without one the run fails. A closed dead letter stays listed for three days."
            : "The step is not tried again, and the run stays failed. A closed dead letter stays listed for three days."
        }
        command={resolve}
        schema={{
          type: "object",
          properties: {
            reason: { type: "string", title: "Reason, kept in the run's history" },
            ...(row.asked ? { output: { title: "Output of the step" } } : {}),
          },
        }}
        submit="Close it"
        run={(value) => resolve.run({ ...given, body: value as { reason?: string } })}
      />
    </>
  );
}

/** What a retry does, with numbers. */
function Consequence({ row }: { row: Letter }) {
  const kept = row.operations.filter((each) => each.status === "done").length;
  return (
    <ul className="plain-list">
      <li>
        {row.asked
          ? "The run waits for this step, and goes on with it."
          : "The run has failed: it is taken up again, with every step of it that failed."}
      </li>
      <li>
        {kept === 0
          ? "The step has no outcome that would be reused."
          : `${kept} of its ${row.operations.length} operations are complete and not done again.`}
      </li>
      {row.edited ? (
        <li>It is tried with what was edited.</li>
      ) : (
        <li>Nothing was edited: it is tried with what failed before.</li>
      )}
      <li>It has failed {row.attempts === 1 ? "once" : `${row.attempts} times`} so far.</li>
    </ul>
  );
}

function EditInput({ row, tag }: { row: Letter; tag: string | null }) {
  const command = useCommand("/api/v1/dead-letters/{letter}/edit", { touches: ALSO });
  const schema = (row.input_schema as Schema | null) ?? { title: "Input" };
  return (
    <FormAction
      label="Edit the input…"
      isOffered={row.state === "open"}
      needs="operator"
      title="Edit the run's input"
      words="The next attempt begins with it. Steps that are complete keep their outputs."
      command={command}
      schema={schema}
      initial={row.input}
      submit="Keep the edit"
      draft={`letter-input ${row.letter}`}
      field="input"
      isWide
      consequence={(value) => <Changes before={row.input} after={value} />}
      run={(value) => command.run({ path: { letter: row.letter }, tag, body: { input: value } })}
    />
  );
}

function EditArguments({ row, tag }: { row: Letter; tag: string | null }) {
  const command = useCommand("/api/v1/dead-letters/{letter}/edit", { touches: ALSO });
  const before = row.edited_arguments ?? row.arguments;
  return (
    <FormAction
      label="Edit the arguments…"
      isOffered={row.state === "open"}
      needs="operator"
      title="Edit the arguments of the tool call"
      words={
        row.arguments_schema === null
          ? "The next attempt calls the tool with them, and checks them first: the tool's code is not at this server."
          : "The next attempt calls the tool with them."
      }
      command={command}
      schema={(row.arguments_schema as Schema | null) ?? schemaLike(before)}
      initial={before}
      submit="Keep the edit"
      draft={`letter-arguments ${row.letter}`}
      field="arguments"
      isWide
      consequence={(value) => <Changes before={before} after={value} />}
      run={(value) => command.run({ path: { letter: row.letter }, tag, body: { arguments: value } })}
    />
  );
}

/** Fields of the kinds that the values have, where the tool's schema is not known here. */
function schemaLike(value: unknown): Schema {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { title: "Arguments" };
  const properties: Record<string, Schema> = {};
  for (const [name, each] of Object.entries(value)) {
    const type = typeof each;
    properties[name] = type === "string" || type === "boolean" || type === "number" ? { type } : {};
  }
  return { type: "object", properties, required: Object.keys(properties) };
}

const OPERATIONS: readonly Column<Operation>[] = [
  { name: "path", title: "Place", width: "80px", cell: (row) => <code>{row.path}</code> },
  { name: "kind", title: "Kind", width: "90px", cell: (row) => row.kind.replaceAll("_", " ") },
  {
    name: "name",
    title: "Name",
    width: "minmax(0, 1fr)",
    narrow: "main",
    cell: (row) => <ForeignText text={row.name} />,
  },
  { name: "status", title: "Status", width: "130px", cell: (row) => <Status status={row.status} /> },
  {
    name: "error",
    title: "Error",
    width: "minmax(0, 2fr)",
    narrow: "main",
    cell: (row) => (row.error ? <ForeignText text={row.error.message} /> : null),
  },
];

function Details({ row }: { row: Letter }) {
  return (
    <div className="grid">
      <section className="card grid" aria-label="Error">
        <div>
          <code>{row.error_class}</code>
          {row.error?.tool ? (
            <>
              {" "}
              in tool <code>{row.error.tool}</code>
            </>
          ) : null}
          {row.error?.retryable ? <span className="faint"> may succeed when tried again</span> : null}
        </div>
        <ForeignText text={row.error?.message ?? row.message} isBlock />
        {row.error?.trace ? (
          <details>
            <summary>Place in the code</summary>
            <ForeignText text={row.error.trace} isBlock />
          </details>
        ) : null}
        <Facts
          facts={[
            [
              "Run",
              <Link key="r" to={`/runs/${row.run_id}`}>
                {row.workflow} <code>{shortRun(row.run_id)}</code> <Status status={row.status} />
              </Link>,
            ],
            [
              "Failed",
              row.attempts === 1 ? (
                <Time key="o" at={row.last_at} kind="exact" />
              ) : (
                <span key="o">
                  {row.attempts} times, first <Time at={row.first_at} kind="exact" />, last{" "}
                  <Time at={row.last_at} kind="exact" />
                </span>
              ),
            ],
            [
              "Asks",
              row.gate ? (
                <Link key="g" to={`/inbox/${row.gate}`}>
                  the question about it
                </Link>
              ) : null,
            ],
            ["Closed", row.resolved_at ? <Time key="c" at={row.resolved_at} kind="exact" /> : null],
          ]}
        />
      </section>
      {row.operations.length > 0 ? (
        <section>
          <h2>Operations of the step</h2>
          <Table label="Operations" columns={OPERATIONS} rows={row.operations} idOf={(each) => each.path} />
        </section>
      ) : null}
      {row.arguments === null ? null : (
        <section>
          <h2>Arguments that failed</h2>
          <Json value={row.arguments} label="arguments" height="30vh" />
        </section>
      )}
      {row.edited_arguments === null ? null : (
        <section>
          <h2>Changed for the next attempt</h2>
          <Changes before={row.arguments} after={row.edited_arguments} />
        </section>
      )}
      <section>
        <h2>Input of the run</h2>
        <Json value={row.input} label="input" height="40vh" />
      </section>
    </div>
  );
}
