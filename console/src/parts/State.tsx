import type { ReactNode } from "react";
import type { Problem } from "@/api/problem";
import { CopyButton } from "@/parts/CopyButton";
import "./State.css";

interface Props {
  isLoading?: boolean;
  problem?: Problem | null;
  again?: () => void;
  /** True if there is nothing to show. Never while loading. */
  isEmpty?: boolean;
  /** Noun of what there could be: "runs". */
  noun?: string;
  /** The filter that leaves nothing, in words, and what clears it. */
  filter?: string | undefined;
  clear?: (() => void) | undefined;
  /** What a newcomer does to have one, where no filter is set. */
  hint?: ReactNode;
  /** The whole of what stands where there is nothing, in the place of "No runs." and what belongs to it. */
  empty?: ReactNode;
  /** What is there. A problem stands above it, so that the rest of the page stays. */
  children?: ReactNode;
}

/** The one design of loading, empty, error, offline and forbidden. */
export function State({
  isLoading,
  problem,
  again,
  isEmpty,
  noun = "rows",
  filter,
  clear,
  hint,
  empty,
  children,
}: Props) {
  return (
    <>
      {problem ? <Failure problem={problem} again={again} /> : null}
      {isLoading && !problem ? (
        <p className="state" role="status">
          Loading {noun}…
        </p>
      ) : null}
      {isEmpty && !isLoading && !problem && empty ? <div className="state">{empty}</div> : null}
      {isEmpty && !isLoading && !problem && !empty ? (
        <div className="state">
          <p>
            No {noun}
            {filter ? <> match {filter}.</> : "."}
          </p>
          {filter && clear ? (
            <button type="button" className="btn" onClick={clear}>
              Clear the filter
            </button>
          ) : null}
          {!filter && hint ? <div className="muted">{hint}</div> : null}
        </div>
      ) : null}
      {isLoading || isEmpty ? null : children}
    </>
  );
}

function Failure({ problem, again }: { problem: Problem; again: (() => void) | undefined }) {
  return (
    <div className="state failure" role="alert" data-kind={kindOf(problem)}>
      <p>
        <strong>{titleOf(problem, again !== undefined)}</strong>
      </p>
      {problem.detail ? <p className="muted">{problem.detail}</p> : null}
      {problem.errors.length > 0 ? (
        <ul>
          {problem.errors.map((each) => (
            <li key={`${each.pointer} ${each.detail}`}>
              <code>{each.pointer}</code> {each.detail}
            </li>
          ))}
        </ul>
      ) : null}
      <div className="line">
        {again && !problem.isForbidden ? (
          <button type="button" className="btn" onClick={again}>
            Try again
          </button>
        ) : null}
        {problem.requestId ? (
          <span className="faint">
            Request <code>{problem.requestId}</code> <CopyButton text={problem.requestId} label="Copy the request id" />
          </span>
        ) : null}
      </div>
    </div>
  );
}

function titleOf(problem: Problem, isRead: boolean): string {
  if (problem.isForbidden) return isRead ? "You may not see this" : "You may not do this";
  // What a dialog is about was there when it was opened.
  return problem.isOvertaken || (problem.isMissing && !isRead) ? "Someone else was first" : problem.title;
}

function kindOf(problem: Problem): string {
  if (problem.isOffline) return "offline";
  if (problem.isOvertaken) return "overtaken";
  return problem.isForbidden ? "forbidden" : "error";
}
