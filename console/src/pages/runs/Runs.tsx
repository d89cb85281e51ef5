import { useCallback, useMemo } from "react";
import { useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import { useColumns } from "@/pages/runs/columns";
import { has, isRunId, parse, STATUSES, toggled, wordsOf } from "@/pages/runs/filter";
import { useRuns } from "@/pages/runs/paged";
import { useAddress } from "@/parts/address";
import { FilterBar } from "@/parts/FilterBar";
import { useNow } from "@/parts/now";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Table } from "@/parts/Table";
import "./Runs.css";

type Run = Schemas["RunRow"];
const MINUTE_MS = 60_000;
const idOf = (run: Run) => run.run_id;

/** The list of runs, filtered on the server. The filter is in the address. */
export default function Runs() {
  const [text, setText] = useAddress("q");
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const { query, wrong } = useMemo(() => parse(text, minute), [text, minute]);
  const list = useRuns(query);
  const { rows, fresh } = list;
  const navigate = useNavigate();
  const open = useCallback(
    (pasted: string) => {
      if (!isRunId(pasted)) return false;
      void navigate(`/runs/${pasted}`);
      return true;
    },
    [navigate],
  );
  const columns = useColumns(rows);
  return (
    <Page title="Runs">
      <FilterBar
        text={text}
        onChange={setText}
        open={open}
        label="Filter runs"
        placeholder="Text, tag:pilot, cost:>0.004, started:<24h, or a run id"
        wrong={wrong}
      >
        {STATUSES.map((status) => {
          const word = `status:${status}`;
          const isOn = has(text, word);
          return (
            <button
              key={status}
              type="button"
              className={isOn ? "chip on" : "chip"}
              aria-pressed={isOn}
              onClick={() => setText(toggled(text, word))}
            >
              {status.replaceAll("_", " ")}
            </button>
          );
        })}
        <WorkflowChip text={text} onChange={setText} />
        <span className="faint right">
          {fresh > 0 ? (
            <button type="button" className="chip on" onClick={list.show}>
              {fresh.toLocaleString("en")}
              {list.isMoreFresh ? " or more" : ""} new
            </button>
          ) : (
            "newest first"
          )}
        </span>
      </FilterBar>
      <State
        isLoading={list.isLoading}
        problem={list.problem}
        again={list.again}
        isEmpty={rows.length === 0}
        noun="runs"
        filter={text || undefined}
        clear={() => setText("")}
        hint={
          <>
            Start one with <code>holdfast run</code>, or from the page of a workflow.
          </>
        }
      >
        <Table
          label="Runs"
          columns={columns}
          rows={rows}
          idOf={idOf}
          linkOf={(run) => `/runs/${run.run_id}`}
          nameOf={(run) => `${run.workflow}, ${run.status.replaceAll("_", " ")}, ${shortRun(run.run_id)}`}
          more={list.more}
          hasMore={list.hasMore}
          onView={list.see}
        />
      </State>
    </Page>
  );
}

/** Which workflow, from those that are known. */
function WorkflowChip({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const names = useList("/api/v1/workflows", { query: { limit: 200 } }).rows.map((each) => each.workflow);
  const chosen = wordsOf(text).find((word) => word.startsWith("workflow:")) ?? "";
  const known = [...new Set([...names, ...(chosen ? [chosen.slice("workflow:".length)] : [])])].sort();
  if (known.length < 2 && !chosen) return null;
  return (
    <select
      className={chosen ? "chip on" : "chip"}
      aria-label="Workflow"
      value={chosen}
      onChange={(event) => {
        const without = chosen ? toggled(text, chosen) : text;
        onChange(event.target.value ? toggled(without, event.target.value) : without);
      }}
    >
      <option value="">any workflow</option>
      {known.map((name) => (
        <option key={name} value={`workflow:${name}`}>
          {name}
        </option>
      ))}
    </select>
  );
}
