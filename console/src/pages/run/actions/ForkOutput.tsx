import { useEffect } from "react";
import { useRow } from "@/api/queries";
import { OUTPUTS } from "@/pages/run/EventData";
import { Fields } from "@/parts/Fields";
import { State } from "@/parts/State";
import { check } from "@/parts/schema";

export interface Edit {
  before: unknown;
  after: unknown;
}

interface Props {
  run: string;
  /** In words: "Output of read#1". */
  title: string;
  /** Number of the event that has the output; null if it came to none. */
  seq: number | null;
  edit: Edit | undefined;
  onEdit: (edit: Edit | undefined) => void;
}

/** An output of the original run, as JSON that is edited for the fork. */
export function ForkOutput({ run, title, seq, edit, onEdit }: Props) {
  const path = { run, seq: String(seq) };
  const event = useRow("/api/v1/runs/{run}/events/{seq}", { path }, { enabled: seq !== null });
  const { row } = event;
  const isKnown = seq === null || row !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: begun once, with what the event has
  useEffect(() => {
    if (!isKnown || edit) return;
    const held: Record<string, unknown> = { ...row };
    const key = OUTPUTS.find((each) => held[each] !== undefined);
    const before = key === undefined ? null : held[key];
    onEdit({ before, after: before });
  }, [isKnown]);
  const given = { title };
  return (
    <State isLoading={event.isLoading} problem={event.problem} again={event.again} noun="the output">
      {edit ? (
        <div>
          <Fields
            given={given}
            root={given}
            value={edit.after}
            onChange={(after) => onEdit({ ...edit, after })}
            pointer="#"
            errors={check(edit.after, given, given)}
            name={title}
            isRequired
          />
          <button type="button" className="btn quiet" onClick={() => onEdit(undefined)}>
            Leave it as it was
          </button>
        </div>
      ) : null}
    </State>
  );
}
