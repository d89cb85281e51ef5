import { type FormEvent, useId, useState } from "react";
import { Link, useNavigate } from "react-router";
import { useList } from "@/api/queries";
import type { RunWhole } from "@/pages/run/tabs";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import { isRunBeginning, isRunId, shortRun, startKey } from "@/parts/runs";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { Time } from "@/parts/Time";

/** Runs of the same workflow that are offered. */
const OFFERED = 8;

/** The button that puts another run beside this one: by its id, or one of the same workflow. */
export function CompareWith({ run }: { run: RunWhole }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="btn" onClick={() => setOpen(true)}>
        Compare with…
      </button>
      {isOpen ? (
        <Dialog isOpen onClose={() => setOpen(false)} title="Compare with another run">
          <Choose run={run} />
        </Dialog>
      ) : null}
    </>
  );
}

function Choose({ run }: { run: RunWhole }) {
  const id = useId();
  const [text, setText] = useState("");
  const navigate = useNavigate();
  const others = useList("/api/v1/runs", { query: { workflow: run.workflow, limit: OFFERED + 1 } });
  const rows = others.rows.filter((each) => each.run_id !== run.run_id).slice(0, OFFERED);
  const typed = text.trim().toLowerCase();
  const isBeginning = isRunBeginning(typed) && !isRunId(typed);
  const found = useList("/api/v1/runs", { query: { prefix: typed, limit: 2 } }, { enabled: isBeginning });
  const other = isBeginning && found.rows.length === 1 ? (found.rows[0]?.run_id ?? typed) : typed;
  const wrong = other === "" || (isBeginning && found.isLoading) ? null : wrongWith(other, run.run_id);
  const open = (event: FormEvent) => {
    event.preventDefault();
    if (other && !wrong) void navigate(`/runs/${run.run_id}/compare/${other}`);
  };
  return (
    <form className="form" onSubmit={open}>
      <div className="form-field">
        <label htmlFor={id}>Id of the other run</label>
        <input
          id={id}
          className="field"
          autoComplete="off"
          spellCheck={false}
          value={text}
          aria-invalid={wrong !== null}
          onChange={(event) => setText(event.target.value)}
        />
        {wrong ? <div className="form-error">{wrong}</div> : null}
      </div>
      <State
        isLoading={others.isLoading}
        problem={others.problem}
        again={others.again}
        isEmpty={rows.length === 0}
        noun={`other runs of ${run.workflow}`}
      >
        <ul className="plain-list">
          {rows.map((each) => (
            <li key={each.run_id} className="line">
              <Link to={`/runs/${run.run_id}/compare/${each.run_id}`}>
                <code>{shortRun(each.run_id)}</code>
              </Link>
              <Status status={each.status} />
              <ForeignText text={startKey(each) ?? ""} />
              <span className="faint">
                <Time at={each.started_at} />
              </span>
            </li>
          ))}
        </ul>
      </State>
      <div className="dialog-foot">
        <button type="submit" className="btn primary" disabled={!isRunId(other) || wrong !== null}>
          Compare
        </button>
      </div>
    </form>
  );
}

function wrongWith(other: string, run: string): string | null {
  if (!isRunId(other)) return "This is not the id of a run.";
  return other === run ? "This is the run itself." : null;
}
