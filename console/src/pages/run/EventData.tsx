import { useState } from "react";
import { Payload } from "@/parts/payload/Payload";

interface Props {
  run: string;
  /** Number of the event that has it; null where the run's own row has it. */
  seq: number | null;
  /** What it is: "input", "output". */
  title: string;
  /** The fields of the event that may have it, the likeliest first. */
  keys: readonly string[];
  isOpen?: boolean;
}

export const INPUTS = ["input", "request", "shown", "arguments", "data", "value"];
export const OUTPUTS = ["output", "response", "payload", "result", "outcome", "data", "value", "error"];

/** Data of an event, fetched when it is opened. */
export function EventData({ run, seq, title, keys, isOpen = false }: Props) {
  const [open, setOpen] = useState(isOpen);
  return (
    <details className="run-data" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {title} {seq === null ? null : <span className="faint">event {seq}</span>}
      </summary>
      {open ? (
        <Payload
          given={{ url: `/api/v1/runs/${encodeURIComponent(run)}${seq === null ? "" : `/events/${seq}`}`, keys }}
          label={title}
        />
      ) : null}
    </details>
  );
}
