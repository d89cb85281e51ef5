import { Link } from "react-router";
import { shortRun } from "@/parts/runs";

/** The id of a run, shortened, with its page behind it. */
export function RunLink({ run }: { run: string }) {
  return (
    <Link to={`/runs/${run}`}>
      <code>{shortRun(run)}</code>
    </Link>
  );
}
