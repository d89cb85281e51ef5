import type { Schemas } from "@/api/client";
import { useList } from "@/api/queries";
import type { TabProps } from "@/pages/run/tabs";
import { CopyButton } from "@/parts/CopyButton";
import { ForeignText } from "@/parts/ForeignText";
import { State } from "@/parts/State";

type Piece = Schemas["LogRow"];

/** What the run's jobs have printed, by job and attempt. */
export default function Logs({ run }: TabProps) {
  const list = useList("/api/v1/runs/{run}/logs", { path: { run: run.run_id } });
  const jobs = new Map<string, Piece[]>();
  for (const piece of list.rows) {
    const key = piece.attempt > 1 ? `${piece.job}, attempt ${piece.attempt}` : piece.job;
    jobs.set(key, [...(jobs.get(key) ?? []), piece]);
  }
  return (
    <State
      isLoading={list.isLoading}
      problem={list.problem}
      again={list.again}
      isEmpty={list.rows.length === 0}
      noun="output of jobs"
      hint="Only jobs of workflows in YAML have output here. What Python code prints is in the terminal of its process, for example of holdfast dev."
    >
      <div className="grid">
        {[...jobs].map(([job, pieces]) => {
          const text = joined(pieces);
          return (
            <section key={job} className="card" aria-label={job}>
              <div className="line">
                <h2>{job}</h2>
                <span className="right">
                  <CopyButton text={text} label={`Copy the output of ${job}`} />
                </span>
              </div>
              <ForeignText text={text} isBlock />
            </section>
          );
        })}
      </div>
    </State>
  );
}

/** Pieces in their order; what was left out between them is said. */
function joined(pieces: readonly Piece[]): string {
  let text = "";
  let next = 0;
  for (const piece of [...pieces].sort((one, other) => one.first_byte - other.first_byte)) {
    if (piece.first_byte > next && text)
      text += `\n[${(piece.first_byte - next).toLocaleString("en")} bytes are not kept]\n`;
    text += piece.text ?? "";
    next = piece.first_byte + piece.bytes;
  }
  return text;
}
