import type { Schemas } from "@/api/client";
import { write } from "@/api/exact";
import { useList } from "@/api/queries";
import type { TabProps } from "@/pages/run/tabs";
import { useAddress } from "@/parts/address";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { Payload } from "@/parts/payload/Payload";
import { State } from "@/parts/State";
import { Status, type Tone } from "@/parts/Status";
import { type Column, Table } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Effect = Schemas["EffectRow"];

const POLICIES: Record<Effect["policy"], string> = {
  read: "only reads",
  idempotent: "may be repeated",
  verify: "is looked up when in doubt",
  once: "once; a person decides when in doubt",
};
const TONES: Partial<Record<Effect["state"], Tone>> = {
  intended: "busy",
  repeated: "ok",
  released: "idle",
  orphaned: "doubt",
};

const COLUMNS: Column<Effect>[] = [
  {
    name: "state",
    title: "State",
    width: "130px",
    cell: (row) => <Status status={row.state} {...(TONES[row.state] ? { tone: TONES[row.state] } : {})} />,
  },
  { name: "tool", title: "Tool", width: "minmax(120px, 1fr)", narrow: "main", cell: (row) => <code>{row.tool}</code> },
  {
    name: "policy",
    title: "If its outcome is lost",
    width: "minmax(120px, 1fr)",
    narrow: "none",
    cell: (row) => <span className="muted">{POLICIES[row.policy]}</span>,
  },
  { name: "step", title: "Step", width: "minmax(80px, 1fr)", cell: (row) => <code className="faint">{row.step}</code> },
  {
    name: "error",
    title: "Error",
    width: "minmax(80px, 1.4fr)",
    narrow: "none",
    cell: (row) => (row.error ? <ForeignText text={row.error} /> : null),
  },
  {
    name: "at",
    title: "Intended",
    width: "90px",
    isNumber: true,
    cell: (row) => (
      <span className="faint">
        <Time at={row.intended_at} />
      </span>
    ),
  },
];

/** The run's tool calls: what each was to do, and what is known of its outcome. */
export default function Effects({ run }: TabProps) {
  const [chosen] = useAddress("effect");
  const list = useList("/api/v1/effects", { query: { run: run.run_id, limit: 100 } });
  const row = list.rows.find((each) => each.call === chosen);
  return (
    <State
      isLoading={list.isLoading}
      problem={list.problem}
      again={list.again}
      isEmpty={list.rows.length === 0}
      noun="tool calls"
      hint="This run has not called a tool."
    >
      <div className="run-split" data-open={row ? "" : undefined}>
        <Table
          label="Tool calls"
          columns={COLUMNS}
          rows={list.rows}
          idOf={(each) => each.call}
          linkOf={(each) => `?tab=effects&effect=${encodeURIComponent(each.call)}`}
          nameOf={(each) => `${each.tool}, ${each.state.replaceAll("_", " ")}`}
          selected={row?.call}
          more={list.more}
          hasMore={list.hasMore}
        />
        {row ? (
          <aside className="run-panel card" aria-label="The tool call" data-chosen="">
            <h2>
              <code>{row.tool}</code>
            </h2>
            <dl className="kv">
              <dt>key</dt>
              <dd>
                <code className="faint">{row.key}</code> <CopyButton text={row.key} label="Copy the effect's key" />
              </dd>
              <dt>intended</dt>
              <dd>
                <Time at={row.intended_at} kind="exact" />
              </dd>
              <dt>changed</dt>
              <dd>
                <Time at={row.updated_at} kind="exact" />
              </dd>
            </dl>
            {row.error ? (
              <div className="run-panel-error">
                <ForeignText text={row.error} />
              </div>
            ) : null}
            <h2 className="run-panel-title">Arguments</h2>
            <Payload given={{ text: write(row.request ?? null) }} label="the arguments" height="34vh" />
            {row.response === null || row.response === undefined ? null : (
              <>
                <h2 className="run-panel-title">Response</h2>
                <Payload given={{ text: write(row.response) }} label="the response" height="34vh" />
              </>
            )}
          </aside>
        ) : null}
      </div>
    </State>
  );
}
