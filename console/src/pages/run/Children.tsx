import { useList, useRow } from "@/api/queries";
import type { TabProps } from "@/pages/run/tabs";
import { useColumns } from "@/pages/runs/columns";
import { Money } from "@/parts/Money";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Table } from "@/parts/Table";

/** The runs that this one has started, and what the whole tree has spent. */
export default function Children({ run }: TabProps) {
  const list = useList("/api/v1/runs/{parent}/children", { path: { parent: run.run_id }, query: { limit: 100 } });
  const tree = useRow("/api/v1/runs/{run}/tree", { path: { run: run.run_id } }).row;
  const columns = useColumns(list.rows);
  return (
    <State
      isLoading={list.isLoading}
      problem={list.problem}
      again={list.again}
      isEmpty={list.rows.length === 0}
      noun="children"
      hint="This run has not started others."
    >
      {tree && tree.runs.length > 1 ? (
        <p className="muted run-tree">
          The whole tree: {tree.is_whole ? "" : "more than "}
          {(tree.runs.length - 1).toLocaleString("en")} runs below this one, <Money usd={tree.cost_usd} /> spent,{" "}
          <Money usd={tree.held_usd} /> held or in doubt
          {tree.limit_usd ? (
            <>
              , of <Money usd={tree.limit_usd} />
            </>
          ) : null}
          , {tree.tokens.toLocaleString("en")} tokens.
        </p>
      ) : null}
      <Table
        label="Children"
        columns={columns}
        rows={list.rows}
        idOf={(each) => each.run_id}
        linkOf={(each) => `/runs/${each.run_id}`}
        nameOf={(each) => `${each.workflow}, ${each.status.replaceAll("_", " ")}, ${shortRun(each.run_id)}`}
        more={list.more}
        hasMore={list.hasMore}
      />
    </State>
  );
}
