import { Link } from "react-router";
import { useRow } from "@/api/queries";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { State } from "@/parts/State";
import { Duration } from "@/parts/Time";
import { replyOf } from "../reply";
import type { Operation } from "./rows";

const MOST = 1_500;

/** The latest answer of a model, with what it took. */
export function LastReply({ run, row }: { run: string; row: Operation }) {
  const event = useRow(
    "/api/v1/runs/{run}/events/{seq}",
    { path: { run, seq: String(row.ended_seq) } },
    { staleTime: Number.POSITIVE_INFINITY },
  );
  const reply = event.row ? replyOf((event.row as Record<string, unknown>).output) : null;
  return (
    <>
      <h2 className="run-panel-title">Answer of the model</h2>
      <p className="faint run-panel-call">
        <code>{row.name}</code> · {row.input_tokens.toLocaleString("en")} in, {row.output_tokens.toLocaleString("en")}{" "}
        out · <Money usd={row.cost_usd} /> · <Duration from={row.began_at} to={row.ended_at} />
      </p>
      <State isLoading={event.isLoading} problem={event.problem} again={event.again} noun="the answer">
        {reply?.text ? <ForeignText text={cut(reply.text)} isBlock /> : null}
        {reply?.asked.map((each) => (
          <div key={each.id} className="run-panel-asked">
            <code>{each.name}</code> <ForeignText text={cut(each.arguments)} isBlock />
          </div>
        ))}
      </State>
      <p>
        <Link to={`?tab=conversation&call=${encodeURIComponent(row.about ?? "")}`}>The whole conversation</Link>
      </p>
    </>
  );
}

function cut(text: string): string {
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}
