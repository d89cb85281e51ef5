import type { FormEvent, ReactNode } from "react";
import type { Problem } from "@/api/problem";
import { State } from "@/parts/State";

interface Props {
  /** The verb of the button: "Raise the limit". */
  submit: string;
  isBusy: boolean;
  /** False while the form may not be sent: it is incomplete, or the server would refuse it. */
  isReady: boolean;
  problem: Problem | null;
  /** Sends the command. A failure is the `problem`. */
  send: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}

/** The form of a command to a run: its fields, the problem of the last try, and the buttons. */
export function CommandForm({ submit, isBusy, isReady, problem, send, onClose, children }: Props) {
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) void send().catch(() => undefined); // shown as the problem
  };
  return (
    <form className="form" onSubmit={onSubmit}>
      {children}
      <State problem={problem} />
      <div className="dialog-foot">
        <button type="button" className="btn" onClick={onClose}>
          Keep it as it is
        </button>
        <button type="submit" className="btn primary" disabled={!isReady}>
          {isBusy ? "Working…" : submit}
        </button>
      </div>
    </form>
  );
}
