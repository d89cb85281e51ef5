import { Link } from "react-router";
import { type Row, useList } from "@/api/queries";
import { BulkAction } from "@/parts/Bulk";
import { ForeignText } from "@/parts/ForeignText";
import type { Filter } from "@/parts/filters";
import { ListPage } from "@/parts/ListPage";
import { Status } from "@/parts/Status";
import { StepOfRun } from "@/parts/StepOfRun";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";
import "./DeadLetters.css";

export type Letter = Row<"/api/v1/dead-letters">;
export const TOUCHES = [
  "/api/v1/dead-letters",
  "/api/v1/dead-letters/summary",
  "/api/v1/dead-letters/{letter}",
] as const;

const FILTERS: readonly Filter[] = [
  {
    name: "state",
    title: "State",
    choices: [
      { value: "", words: "open" },
      { value: "resolved", words: "closed" },
      { value: "any", words: "both" },
    ],
  },
  { name: "workflow", title: "Workflow" },
  { name: "node", title: "Node" },
  { name: "error_class", title: "Error class" },
  { name: "run", title: "Run id" },
  { name: "since_ms", title: "Failed since", isDate: true },
  { name: "until_ms", title: "Failed before", isDate: true },
];

const COLUMNS: readonly Column<Letter>[] = [
  {
    name: "step",
    title: "Step",
    width: "minmax(0, 1.5fr)",
    narrow: "main",
    cell: (row) => <StepOfRun workflow={row.workflow} run={row.run_id} step={row.step} />,
  },
  { name: "error", title: "Error", width: "minmax(0, 0.7fr)", cell: (row) => <code>{row.error_class}</code> },
  {
    name: "message",
    title: "Message",
    width: "minmax(0, 2.4fr)",
    narrow: "main",
    cell: (row) => <ForeignText text={row.message} />,
  },
  { name: "attempts", title: "Attempts", width: "64px", isNumber: true, narrow: "none", cell: (row) => row.attempts },
  { name: "last", title: "Failed", width: "104px", cell: (row) => <Time at={row.last_at} /> },
  { name: "state", title: "State", width: "130px", cell: (row) => <LetterState row={row} /> },
];

export function LetterState({ row }: { row: Letter }) {
  if (row.state === "resolved") return <Status status="done" words="closed" />;
  return (
    <>
      <Status status="failed" tone="bad" words={row.asked ? "run waits" : "run failed"} />
      {row.edited ? <span className="faint"> edited</span> : null}
    </>
  );
}

export function addressOf(letter: string): string {
  return `/dead-letters/${encodeURIComponent(letter)}`;
}

export default function DeadLetters() {
  return (
    <ListPage
      title="Dead letters"
      noun="dead letters"
      path="/api/v1/dead-letters"
      filters={FILTERS}
      columns={COLUMNS}
      idOf={(row) => row.letter}
      linkOf={(row) => addressOf(row.letter)}
      nameOf={(row) => `Dead letter of ${row.workflow}, ${row.step}, ${row.error_class}`}
      tenantOf={(row) => row.tenant}
      every={5_000}
      hint="Steps that have failed for good stand here, to be edited and retried."
      above={<Kinds />}
      about={({ query, words, rows }) => <Bulk query={query} words={words} isEmpty={rows.length === 0} />}
    />
  );
}

/** What fails, where and how often. A click filters by it. */
function Kinds() {
  const { rows } = useList("/api/v1/dead-letters/summary", {}, { every: 5_000 });
  const open = rows.filter((row) => row.open > 0);
  if (open.length < 2) return null;
  return (
    <ul className="letter-kinds" aria-label="Open dead letters by workflow, node and error class">
      {open.slice(0, SHOWN_KINDS).map((row) => (
        <li key={`${row.workflow}/${row.node}/${row.error_class}`}>
          <Link className="chip" to={`/dead-letters?${filtered(row)}`}>
            <strong>{row.open.toLocaleString("en-US")}</strong>
            <ForeignText text={`${row.workflow} / ${row.node}`} /> <code>{row.error_class}</code>
          </Link>
        </li>
      ))}
    </ul>
  );
}

const SHOWN_KINDS = 12;

function filtered(row: { workflow: string; node: string; error_class: string }): string {
  const { workflow, node, error_class } = row;
  return new URLSearchParams({ workflow, node, error_class }).toString();
}

interface BulkProps {
  query: Readonly<Record<string, string | number>>;
  words: string | undefined;
  isEmpty: boolean;
}

function Bulk({ query, words, isEmpty }: BulkProps) {
  const { state, ...filters } = query;
  if (state === "resolved") return null;
  const what = words ? `open dead letters that match ${words}` : "every open dead letter";
  const common = {
    path: "/api/v1/dead-letters/bulk",
    needs: "operator",
    touches: TOUCHES,
    what,
    isDisabled: isEmpty,
  } as const;
  return (
    <div className="line letter-bulk">
      <BulkAction
        {...common}
        label="Retry all that match…"
        title="Retry all that match"
        verb="retry"
        done="retried"
        body={{ ...filters, action: "retry" }}
      />
      <BulkAction
        {...common}
        label="Close all that match…"
        title="Close all that match"
        verb="close"
        done="closed; runs that waited for them fail"
        look="danger"
        body={{ ...filters, action: "resolve" }}
      />
    </div>
  );
}
