import { type Row, useCommand } from "@/api/queries";
import { ConfirmAction } from "@/parts/Action";
import { ForeignText } from "@/parts/ForeignText";
import { List } from "@/parts/ListPage";
import { RunLink } from "@/parts/RunLink";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Approval = Row<"/api/v1/approvals">;

const COLUMNS: readonly Column<Approval>[] = [
  {
    name: "tool",
    title: "Tool calls",
    width: "minmax(0, 1.1fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.tool} />
      </strong>
    ),
  },
  {
    name: "when",
    title: "When",
    width: "minmax(0, 1.6fr)",
    cell: (row) =>
      row.when.length === 0 ? (
        <span className="faint">always</span>
      ) : (
        <ForeignText
          text={row.when.map((each) => `${each.argument} ${each.operator} ${JSON.stringify(each.value)}`).join(" and ")}
        />
      ),
  },
  {
    name: "of",
    title: "Of",
    width: "minmax(0, 1fr)",
    cell: (row) =>
      row.run_id ? <RunLink run={row.run_id} /> : <ForeignText text={row.workflow ?? "every workflow"} />,
  },
  {
    name: "used",
    title: "Used",
    width: "100px",
    isNumber: true,
    cell: (row) => (
      <>
        {row.used.toLocaleString("en-US")}
        {row.max_calls === null ? "" : ` of ${row.max_calls.toLocaleString("en-US")}`}
      </>
    ),
  },
  {
    name: "state",
    title: "State",
    width: "100px",
    cell: (row) =>
      row.state === "stands" ? (
        <Status status="completed" words="stands" />
      ) : (
        <Status status="cancelled" words={row.state.replaceAll("_", " ")} />
      ),
  },
  { name: "until", title: "Until", width: "104px", cell: (row) => <Time at={row.until} /> },
  {
    name: "by",
    title: "Granted by",
    width: "minmax(0, 0.9fr)",
    narrow: "none",
    cell: (row) => <ForeignText text={row.by} />,
  },
  { name: "act", title: "", width: "92px", cell: (row) => (row.state === "stands" ? <Revoke row={row} /> : null) },
];

/** Tool calls that people have approved in advance. */
export function Approvals() {
  return (
    <List
      title="Standing approvals"
      noun="standing approvals"
      path="/api/v1/approvals"
      columns={COLUMNS}
      idOf={(row) => row.approval}
      hint={
        <>
          A person approves tool calls in advance with <code>holdfast approvals grant</code>.
        </>
      }
    />
  );
}

function Revoke({ row }: { row: Approval }) {
  const command = useCommand("/api/v1/approvals/{approval}/revoke", { touches: ["/api/v1/approvals"] });
  return (
    <ConfirmAction
      label="Revoke…"
      needs="reviewer"
      look="danger"
      title={`Revoke the approval of ${row.tool}?`}
      confirm="Revoke the approval"
      command={command}
      run={() => command.run({ path: { approval: row.approval }, body: { tenant: row.tenant } })}
    >
      The next calls ask a person again. The {row.used.toLocaleString("en-US")} calls that it has covered stay made.
    </ConfirmAction>
  );
}
