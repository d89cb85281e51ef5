/** Buttons that do something. One that needs more than a click ends in "…" and says first what will happen. */
import { type ReactNode, useId, useState } from "react";
import { holds, useCaller } from "@/api/caller";
import type { Schemas } from "@/api/client";
import type { Problem } from "@/api/problem";
import { Confirm, Dialog } from "@/parts/Dialog";
import { Form, forgetDraft } from "@/parts/Form";
import type { Schema } from "@/parts/schema";

type Grant = Schemas["Grant"];
export type Needs = Grant | readonly Grant[];

interface Command {
  isBusy: boolean;
  problem: Problem | null;
  reset: () => void;
}

interface Common {
  /** On the button. It ends in "…". */
  label: string;
  /** The grant that the command needs, or several of which one is enough: without it the button is disabled, and says so. */
  needs: Needs;
  /** Of the dialog: a question, or what the form is for. */
  title: string;
  command: Command;
  look?: "primary" | "danger" | "quiet" | undefined;
  isDisabled?: boolean;
  /** False where there is nothing to do any more: the button goes, and a dialog that is open stays with its problem. */
  isOffered?: boolean;
}

interface ConfirmActionProps extends Common {
  /** The verb again: "Remove the pool". */
  confirm: string;
  /** What will happen, with numbers. */
  children: ReactNode;
  isReady?: boolean;
  run: () => Promise<unknown>;
}

/** A button that asks before it acts. */
export function ConfirmAction(props: ConfirmActionProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      {props.isOffered === false ? null : <ActionButton {...props} onClick={() => setOpen(true)} />}
      {isOpen ? <ConfirmDialog {...props} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

type ConfirmDialogProps = Omit<ConfirmActionProps, "label" | "needs"> & { onClose: () => void };

/** Asks before something is done. A failure stays in it, also where the thing that it is about is gone from the page. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const { command, run, look, title, confirm, children, isReady = true, onClose } = props;
  return (
    <Confirm
      isOpen
      onClose={() => {
        onClose();
        command.reset();
      }}
      title={title}
      confirm={confirm}
      isDanger={look === "danger"}
      isBusy={command.isBusy}
      isReady={isReady}
      problem={command.problem}
      onConfirm={() => void done(run, onClose)}
    >
      {children}
    </Confirm>
  );
}

interface FormActionProps extends Common {
  schema: Schema;
  initial?: unknown;
  submit: string;
  /** One sentence under the title. */
  words?: string;
  /** What is known beforehand, above the fields. */
  facts?: ReactNode;
  /** What will happen with what is in the form. */
  consequence?: (value: unknown) => ReactNode;
  draft?: string;
  /** The field of the request that the value is. */
  field?: string;
  isWide?: boolean;
  run: (value: unknown) => Promise<unknown>;
}

/** A button that opens a form. */
export function FormAction(props: FormActionProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      {props.isOffered === false ? null : <ActionButton {...props} onClick={() => setOpen(true)} />}
      {isOpen ? <FormDialog {...props} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

type FormDialogProps = Omit<FormActionProps, "label" | "needs"> & { onClose: () => void };

/** The same for a form. */
export function FormDialog(props: FormDialogProps) {
  const { command, run, title, words, schema, initial, submit, consequence, draft, field, isWide } = props;
  const [value, setValue] = useState<unknown>(initial);
  const close = () => {
    props.onClose();
    command.reset();
  };
  return (
    <Dialog isOpen onClose={close} title={title} isWide={isWide ?? false} {...(words ? { words } : {})}>
      {props.facts}
      <Form
        schema={schema}
        {...(initial === undefined ? {} : { initial })}
        submit={submit}
        isBusy={command.isBusy}
        problem={command.problem}
        {...(draft ? { draft } : {})}
        field={field}
        onChange={setValue}
        onSubmit={(sent) =>
          void done(
            () => run(sent),
            () => {
              if (draft) forgetDraft(draft);
              close();
            },
          )
        }
      >
        {consequence ? <div className="muted form-consequence">{consequence(value)}</div> : null}
      </Form>
    </Dialog>
  );
}

/** A failure stays in the dialog: the command has it as its problem. */
async function done(run: () => Promise<unknown>, then: () => void): Promise<void> {
  try {
    if ((await run()) === undefined) return; // the same command is still on its way
    then();
  } catch {
    // Shown by the dialog.
  }
}

interface ButtonProps {
  label: string;
  needs: Needs;
  look?: Common["look"];
  isDisabled?: boolean;
  onClick: () => void;
}

export function ActionButton({ label, needs, look, isDisabled = false, onClick }: ButtonProps) {
  const grants: readonly Grant[] = typeof needs === "string" ? [needs] : needs;
  const held = useCaller()?.may ?? [];
  const may = grants.some((grant) => holds(held, grant));
  const id = useId();
  const words = may ? undefined : `Needs the grant ${grants.join(" or ")}.`;
  return (
    <>
      <button
        type="button"
        className={`btn ${look ?? ""}`}
        aria-disabled={!may || isDisabled}
        title={words}
        aria-describedby={words ? id : undefined}
        onClick={() => {
          if (may && !isDisabled) onClick();
        }}
      >
        {label}
      </button>
      {words ? (
        <span id={id} className="unseen">
          {words}
        </span>
      ) : null}
    </>
  );
}
