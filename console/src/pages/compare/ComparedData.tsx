import { lazy, Suspense } from "react";
import { write } from "@/api/exact";
import { useRow } from "@/api/queries";
import { useMedia } from "@/parts/media";
import { State } from "@/parts/State";

const SideBySide = lazy(() => import("@/parts/SideBySide"));
const TextDiff = lazy(() => import("@/parts/TextDiff"));
/** Longer data is opened on the run's own page. */
const MOST_CHARACTERS = 500_000;

/** An event of a run, with null where the run has none; or what the run's own row has. */
export type Place = { run: string; seq: number | null } | { value: unknown };

interface Props {
  /** What it is: "Input", "Output". */
  title: string;
  first: Place;
  second: Place;
  /** The fields of the events that may have it, the likeliest first. */
  keys: readonly string[];
}

/** Data of an event of each run, beside one another. */
export function ComparedData({ title, first, second, keys }: Props) {
  const [one, other] = [useData(first, keys), useData(second, keys)];
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <State
        isLoading={one.isLoading || other.isLoading}
        problem={one.problem ?? other.problem}
        again={() => {
          one.again();
          other.again();
        }}
        noun="the data"
      >
        <Both title={title} first={one.text} second={other.text} />
      </State>
    </section>
  );
}

/** The data as text; null where there is none. */
function useData(place: Place, keys: readonly string[]) {
  const { run, seq } = "value" in place ? { run: "", seq: null } : place;
  const path = { run, seq: String(seq) };
  const event = useRow("/api/v1/runs/{run}/events/{seq}", { path }, { enabled: seq !== null });
  if ("value" in place) return { ...event, text: textOf(place.value) };
  const held: Record<string, unknown> = { ...event.row };
  const key = keys.find((each) => held[each] !== undefined);
  return { ...event, text: key === undefined ? null : textOf(held[key]) };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : write(value, 2);
}

function Both({ title, first, second }: { title: string; first: string | null; second: string | null }) {
  const isNarrow = useMedia("(max-width: 760px)");
  if (first === null && second === null) return <p className="muted">Neither run has any.</p>;
  if ((first?.length ?? 0) + (second?.length ?? 0) > MOST_CHARACTERS) {
    return <p className="muted">It is too long to compare here. Each run's page shows it whole.</p>;
  }
  return (
    <>
      {first === second ? <p className="muted">It is the same in both runs.</p> : null}
      {first === null || second === null ? (
        <p className="muted">Only the {first === null ? "second" : "first"} run has any.</p>
      ) : null}
      <Suspense fallback={<p className="faint">Comparing…</p>}>
        {isNarrow ? (
          <TextDiff before={first ?? ""} after={second ?? ""} label={`${title} of both runs`} />
        ) : (
          <SideBySide first={first ?? ""} second={second ?? ""} label={title} />
        )}
      </Suspense>
    </>
  );
}
