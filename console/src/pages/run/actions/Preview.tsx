import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Problem } from "@/api/problem";
import type { Quote } from "@/pages/run/actions/preview";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
import { Money } from "@/parts/Money";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import "./Preview.css";

interface Props {
  quote: Quote | undefined;
  problem: Problem | null;
  again: () => void;
  /** Shows the answer; by default what the command would do to the run. */
  of?: (quote: Quote) => ReactNode;
}

/** The server's own answer to what a command would do. */
export function Preview({ quote, problem, again, of = (given) => <Answer quote={given} /> }: Props) {
  return (
    <section className="run-preview" aria-label="What will happen" aria-live="polite">
      <State isLoading={!quote} problem={problem} again={again} noun="what will happen">
        {!quote ? null : quote.refused === null ? of(quote) : <Refused why={quote.refused} />}
      </State>
    </section>
  );
}

function Refused({ why }: { why: string }) {
  return (
    <p>
      <strong>This would be refused.</strong> <ForeignText text={why} />
    </p>
  );
}

/** What a command means, beside what the server says that it does. */
const MEANS: Partial<Record<Quote["action"], string>> = {
  pause: "Nothing new begins until you resume the run. What is in flight ends.",
  resume: "The run goes on where it stood.",
  retry: "What failed is tried again. What is complete is kept.",
  cancel: "What is unfinished stops, what has an undo is undone, and then the run ends as cancelled.",
};

function Answer({ quote }: { quote: Quote }) {
  const means = MEANS[quote.action];
  const names = new Map(quote.in_flight.map((each) => [each.call, each.name]));
  return (
    <>
      {means ? <p>{means}</p> : null}
      <Facts
        facts={[
          ["status", <Becomes key="status" quote={quote} />],
          ["goes on", some(quote.goes_on, (each) => <code>{each}</code>)],
          ["cancels", some(quote.called_off, (each) => <code>{each}</code>)],
          [
            "goes to",
            quote.action !== "signal"
              ? null
              : (some(quote.delivered_to, (each) => <code>{each}</code>) ??
                "no step waits for it: the run keeps it until one does"),
          ],
          [
            "withdraws",
            some(quote.gates_withdrawn, (each) => <Link to={`/inbox/${encodeURIComponent(each)}`}>a gate</Link>),
          ],
          [
            "calls again",
            some(quote.calls_again, (each) => (
              <>
                <code>
                  <ForeignText text={each.name} />
                </code>{" "}
                <span className="faint">under the same effect key</span>
              </>
            )),
          ],
          [
            "undoes",
            some(quote.compensated, (each) => (
              <>
                <code>
                  <ForeignText text={each.tool} />
                </code>{" "}
                {each.with ? (
                  <span className="faint">
                    by{" "}
                    <code>
                      <ForeignText text={each.with} />
                    </code>
                  </span>
                ) : (
                  <span className="faint">by the child run itself</span>
                )}
              </>
            )),
          ],
          [
            "in flight",
            some(quote.in_flight, (each) => (
              <>
                {each.kind === "model" ? "model" : "tool"}{" "}
                <code>
                  <ForeignText text={each.name} />
                </code>{" "}
                <span className="faint">
                  {each.doubted ? "may have happened; a person must find out" : "may have happened"}
                </span>
              </>
            )),
          ],
          [
            "asks about",
            some(quote.asked, (each) => (
              <>
                <code>
                  <ForeignText text={names.get(each) ?? each} />
                </code>{" "}
                <span className="faint">if its outcome is lost</span>
              </>
            )),
          ],
          [
            "can spend",
            quote.action === "cancel" ? null : quote.spendable_usd === null ? (
              "any amount: the run has no cost limit"
            ) : (
              <>
                at most <Money usd={quote.spendable_usd} /> more
              </>
            ),
          ],
        ]}
      />
    </>
  );
}

function Becomes({ quote }: { quote: Quote }) {
  if (quote.action === "cancel" && quote.status_after !== null) {
    // Its end is not the same commit: what is under way stops first, and what was done is undone.
    const isLater = quote.in_flight.length > 0 || quote.compensated.length > 0;
    return (
      <span className="line">
        <Status status={quote.status} /> <span aria-hidden="true">→</span>
        <span className="unseen">becomes</span> <Status status="cancelled" />
        {isLater ? <span className="faint">after what is listed here</span> : null}
      </span>
    );
  }
  if (quote.status_after === null || quote.status === quote.status_after) {
    return (
      <>
        stays <Status status={quote.status} />
      </>
    );
  }
  return (
    <span className="line">
      <Status status={quote.status} /> <span aria-hidden="true">→</span>
      <span className="unseen">becomes</span> <Status status={quote.status_after} />
    </span>
  );
}

const SHOWN = 8;

/** The first of a list, a line each, and how many more there are; null for none. */
export function some<T>(rows: readonly T[], one: (row: T) => ReactNode): ReactNode {
  if (rows.length === 0) return null;
  return (
    <ul className="plain-list">
      {rows.slice(0, SHOWN).map((row, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the server's answer as a whole, in its order
        <li key={index}>{one(row)}</li>
      ))}
      {rows.length > SHOWN ? <li className="faint">and {(rows.length - SHOWN).toLocaleString("en")} more</li> : null}
    </ul>
  );
}
