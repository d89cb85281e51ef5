import "./Status.css";

export type Tone = "ok" | "busy" | "wait" | "bad" | "doubt" | "idle";

/** Every status of the API: tone and shape. The word is the status itself, or what the page passes. */
const LOOKS: Record<string, { tone: Tone; shape: keyof typeof SHAPES }> = {
  running: { tone: "busy", shape: "play" },
  active: { tone: "busy", shape: "play" },
  waiting: { tone: "wait", shape: "clock" },
  ready: { tone: "wait", shape: "clock" },
  open: { tone: "wait", shape: "clock" },
  suspended: { tone: "wait", shape: "clock" },
  retrying: { tone: "wait", shape: "clock" },
  paused: { tone: "idle", shape: "pause" },
  requires_attention: { tone: "doubt", shape: "mark" },
  budget_blocked: { tone: "idle", shape: "bar" },
  completed: { tone: "ok", shape: "check" },
  done: { tone: "ok", shape: "check" },
  decided: { tone: "ok", shape: "check" },
  failed: { tone: "bad", shape: "cross" },
  rejected: { tone: "bad", shape: "cross" },
  cancelled: { tone: "idle", shape: "bar" },
  skipped: { tone: "idle", shape: "bar" },
  lost: { tone: "bad", shape: "cross" },
  unknown: { tone: "doubt", shape: "mark" },
  in_doubt: { tone: "doubt", shape: "mark" },
};

const SHAPES = {
  play: "M3 1.5v9l7.5-4.5z",
  clock: "M6 1.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6zM6 3.4V6l1.8 1.2",
  pause: "M3.5 2v8M8.5 2v8",
  mark: "M6 1v6.2M6 9.4v1.4",
  check: "M1.5 6.5 4.6 9.6 10.5 2.8",
  cross: "M2 2l8 8M10 2l-8 8",
  bar: "M1.5 6h9",
} as const;

interface Props {
  status: string;
  /** Other words than the status itself, as "waiting for approval". */
  words?: string | undefined;
  tone?: Tone;
}

/** A state as shape, word and colour. */
export function Status({ status, words, tone }: Props) {
  const look = LOOKS[status] ?? { tone: "idle" as const, shape: "bar" as const };
  return (
    <span className={`badge ${tone ?? look.tone}`} data-status={status}>
      <svg viewBox="0 0 12 12" width="10" height="10" aria-hidden="true" data-shape={look.shape}>
        <path d={SHAPES[look.shape]} />
      </svg>
      {words ?? status.replaceAll("_", " ")}
    </span>
  );
}
