import { useCallback, useMemo, useState } from "react";
import { Link, useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import { useColumns } from "@/pages/runs/columns";
import { has, parse, STATUSES, toggled, valueIn, WAITS } from "@/pages/runs/filter";
import { type Entry, isRead } from "@/pages/runs/merge";
import { useRuns } from "@/pages/runs/paged";
import { useAddress } from "@/parts/address";
import { FilterBar } from "@/parts/FilterBar";
import { useNow } from "@/parts/now";
import { Page } from "@/parts/Page";
import { isRunId, shortRun } from "@/parts/runs";
import { State } from "@/parts/State";
import { type Column, Table } from "@/parts/Table";
import "./Runs.css";

type Run = Schemas["RunRow"];
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
  const [chosen, setChosen] = useState<readonly Entry[]>([]);
  const choose = useCallback((run: Entry) => setChosen((before) => chosenWith(before, run)), []);
  const marked = useMemo(() => new Set(chosen.map(idOf)), [chosen]);
  const facts = useColumns(rows);
  const columns = useMemo(() => [choice(marked, choose), ...facts], [marked, choose, facts]);
  return (
    <Page title="Runs" actions={chosen.length > 0 ? <CompareChosen chosen={[...marked]} rows={rows} /> : null}>
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
            Start one from the page of a <Link to="/workflows">workflow</Link>, or with <code>holdfast run</code>.
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
          marked={marked}
          onMark={choose}
        />
      </State>
    </Page>
  );
}

/** The runs that are chosen, two at most: a third takes the place of the first. */
function chosenWith(before: readonly Entry[], run: Entry): readonly Entry[] {
  const others = before.filter((each) => each.run_id !== run.run_id);
  return others.length < before.length ? others : [...before, run].slice(-2);
}

function choice(marked: ReadonlySet<string>, choose: (run: Entry) => void): Column<Run> {
  return {
    name: "choice",
    title: <span className="unseen">Chosen</span>,
    width: "18px",
    cell: (run) => (
      <input
        type="checkbox"
        aria-label={`Choose ${run.workflow} ${shortRun(run.run_id)} to compare`}
        checked={marked.has(run.run_id)}
        onChange={() => choose(run)}
      />
    ),
  };
}

/** The link to two chosen runs side by side, the older one first. */
function CompareChosen({ chosen, rows }: { chosen: readonly string[]; rows: readonly Entry[] }) {
  if (chosen.length < 2) return <span className="muted">Choose another run to compare</span>;
  const [newer = "", older = ""] = rows.map(idOf).filter((each) => chosen.includes(each));
  const [first, second] = older ? [older, newer] : chosen;
  return (
    <Link className="btn primary" to={`/runs/${first}/compare/${second}`}>
      Compare the two
    </Link>
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
