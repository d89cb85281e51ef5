import { useCommand } from "@/api/queries";
import { Preview } from "@/pages/run/actions/Preview";
import { usePreview } from "@/pages/run/actions/preview";
import { Confirm } from "@/parts/Dialog";

export type Plain = "pause" | "resume" | "retry" | "cancel";

export const PLAIN_ACTIONS = {
  pause: { path: "/api/v1/runs/{run}/pause", label: "Pause…", title: "Pause this run?", confirm: "Pause the run" },
  resume: { path: "/api/v1/runs/{run}/resume", label: "Resume…", title: "Resume this run?", confirm: "Resume the run" },
  retry: { path: "/api/v1/runs/{run}/retry", label: "Retry…", title: "Retry this run?", confirm: "Retry the run" },
  cancel: { path: "/api/v1/runs/{run}/cancel", label: "Cancel…", title: "Cancel this run?", confirm: "Cancel the run" },
} as const;

/** Asks before an action without fields, and shows what it will do. */
export function PlainAction({ run, action, onClose }: { run: string; action: Plain; onClose: () => void }) {
  const { path, title, confirm } = PLAIN_ACTIONS[action];
  const command = useCommand(path);
  const preview = usePreview(run, { action });
  return (
    <Confirm
      isOpen
      onClose={onClose}
      title={title}
      confirm={confirm}
      isDanger={action === "cancel"}
      isBusy={command.isBusy}
      isReady={preview.quote?.refused === null}
      problem={command.problem}
      onConfirm={() =>
        void command.run({ path: { run } }).then(
          (answer) => answer && onClose(),
          () => undefined, // shown in the dialog
        )
      }
    >
      <Preview {...preview} />
    </Confirm>
  );
}
