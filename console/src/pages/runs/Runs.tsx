import { useCallback, useMemo } from "react";
import { useNavigate } from "react-router";
import { useList } from "@/api/queries";
import { useColumns } from "@/pages/runs/columns";
import { has, isRunId, parse, STATUSES, toggled, valueIn, WAITS } from "@/pages/runs/filter";
import { type Entry, isRead } from "@/pages/runs/merge";
import { useRuns } from "@/pages/runs/paged";
import { useAddress } from "@/parts/address";
import { FilterBar } from "@/parts/FilterBar";
import { useNow } from "@/parts/now";
import { Page } from "@/parts/Page";
import { shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { Table } from "@/parts/Table";
import "./Runs.css";

const MINUTE_MS = 60_000;
const idOf = (run: Entry) => run.run_id;
const isGone = (run: Entry) => !isRead(run);

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
        <ChoiceChip
          text={text}
          onChange={setText}
          word="waits"
          title="Waits for"
          any="any wait"
          choices={WAIT_CHOICES}
        />
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
          isGone={isGone}
          onView={list.see}
        />
      </State>
    </Page>
  );
}

/** Which workflow, from those that are known. */
function WorkflowChip({ text, onChange }: Chip) {
  const names = useList("/api/v1/workflows", { query: { limit: 200 } }).rows.map((each) => each.workflow);
  const chosen = valueIn(text, "workflow");
  const known = [...new Set([...names, ...(chosen ? [chosen] : [])])].sort();
  if (known.length < 2 && !chosen) return null;
  const choices = known.map((name) => [name, name] as const);
  return <ChoiceChip {...{ text, onChange, choices }} word="workflow" title="Workflow" any="any workflow" />;
}

const WAIT_CHOICES = Object.entries(WAITS).map(([value, each]) => [value, `waits for ${each.words}`] as const);

interface Chip {
  text: string;
  onChange: (text: string) => void;
}

interface ChoiceProps extends Chip {
  /** The word of the filter: `workflow:` */
  word: string;
  title: string;
  any: string;
  /** Values, each with its words. */
  choices: readonly (readonly [string, string])[];
}

/** One value of a word of the filter, or none. */
function ChoiceChip({ text, onChange, word, title, any, choices }: ChoiceProps) {
  const chosen = valueIn(text, word);
  return (
    <select
      className={chosen ? "chip on" : "chip"}
      aria-label={title}
      value={chosen}
      onChange={(event) => {
        const without = chosen ? toggled(text, `${word}:${chosen}`) : text;
        onChange(event.target.value ? toggled(without, `${word}:${event.target.value}`) : without);
      }}
    >
      <option value="">{any}</option>
      {choices.map(([value, words]) => (
        <option key={value} value={value}>
          {words}
        </option>
      ))}
    </select>
  );
}
