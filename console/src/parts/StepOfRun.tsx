import { ForeignText } from "@/parts/ForeignText";
import { shortRun } from "@/parts/runs";

/** A step by its workflow, the end of its run's id, and its name. */
export function StepOfRun({ workflow, run, step }: { workflow: string; run: string; step: string }) {
  return (
    <>
      <strong>
        <ForeignText text={workflow} />
      </strong>{" "}
      <code className="faint">
        {shortRun(run)} / {step}
      </code>
    </>
  );
}
