import { AlertDialog as Alert, Dialog as Plain } from "radix-ui";
import { createContext, type ReactNode, useContext } from "react";
import type { Problem } from "@/api/problem";
import { State } from "@/parts/State";
import "./Dialog.css";

interface DialogProps {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  /** One sentence under the title. */
  words?: string;
  children: ReactNode;
  isWide?: boolean;
}

const Close = createContext<(() => void) | null>(null);

/** What closes the dialog around; null outside of one. */
export function useClose(): (() => void) | null {
  return useContext(Close);
}

const FIELD = "input:not([type=hidden]):not(:disabled), select:not(:disabled), textarea:not(:disabled)";

/** The focus goes to the first field. An editor that is still loading takes it from the dialog (`JsonEditor`). */
function toFirstField(event: Event): void {
  const dialog = event.currentTarget as HTMLElement;
  const field = dialog.querySelector<HTMLElement>(FIELD);
  const isEditorFirst = dialog.querySelector(`.json[data-editable], ${FIELD}`)?.matches(".json") ?? false;
  if (!field && !isEditorFirst) return;
  event.preventDefault();
  if (isEditorFirst) dialog.focus();
  else field?.focus();
}

/** A dialog over the page. The focus goes into it, and back to where it was. */
export function Dialog({ isOpen, onClose, title, words, children, isWide = false }: DialogProps) {
  return (
    <Plain.Root open={isOpen} onOpenChange={(open) => open || onClose()}>
      <Plain.Portal>
        <Plain.Overlay className="dialog-back" />
        <Plain.Content
          className="dialog"
          data-wide={isWide}
          onOpenAutoFocus={toFirstField}
          {...(words ? {} : { "aria-describedby": undefined })}
        >
          <Plain.Title asChild>
            <h2>{title}</h2>
          </Plain.Title>
          {words ? <Plain.Description className="muted">{words}</Plain.Description> : null}
          <Close.Provider value={onClose}>{children}</Close.Provider>
          <button type="button" className="btn quiet dialog-close" aria-label="Close this dialog" onClick={onClose}>
            ✕
          </button>
        </Plain.Content>
      </Plain.Portal>
    </Plain.Root>
  );
}

interface ConfirmProps {
  isOpen: boolean;
  onClose: () => void;
  /** A question: "Cancel this run?" */
  title: string;
  /** What will happen, with numbers from the API. */
  children: ReactNode;
  /** The verb again: "Cancel the run". */
  confirm: string;
  isDanger?: boolean;
  isBusy?: boolean;
  /** False while the facts are still being read. */
  isReady?: boolean;
  problem?: Problem | null;
  onConfirm: () => void;
}

/** Asks before something happens. It stays open until the server has answered; the page closes it. */
export function Confirm(props: ConfirmProps) {
  const {
    isOpen,
    onClose,
    title,
    children,
    confirm,
    isDanger,
    isBusy = false,
    isReady = true,
    problem,
    onConfirm,
  } = props;
  return (
    <Alert.Root open={isOpen} onOpenChange={(open) => open || isBusy || onClose()}>
      <Alert.Portal>
        <Alert.Overlay className="dialog-back" />
        <Alert.Content className="dialog">
          <Alert.Title asChild>
            <h2>{title}</h2>
          </Alert.Title>
          <Alert.Description asChild>
            <div>{children}</div>
          </Alert.Description>
          <State problem={problem ?? null} />
          <div className="dialog-foot">
            <Alert.Cancel className="btn" disabled={isBusy}>
              Keep it as it is
            </Alert.Cancel>
            <button
              type="button"
              className={`btn ${isDanger ? "danger" : "primary"}`}
              disabled={isBusy || !isReady}
              onClick={onConfirm}
            >
              {isBusy ? "Working…" : confirm}
            </button>
          </div>
        </Alert.Content>
      </Alert.Portal>
    </Alert.Root>
  );
}
