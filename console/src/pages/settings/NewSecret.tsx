import { CopyButton } from "@/parts/CopyButton";
import { Dialog } from "@/parts/Dialog";

interface Props {
  name: string;
  secret: string;
  onClose: () => void;
}

/** A secret, shown once: it is kept nowhere, and gone when the dialog closes. */
export function NewSecret({ name, secret, onClose }: Props) {
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={`Secret of ${name}`}
      words="Copy it now: it is shown only here, only once. The server keeps its hash."
    >
      <p className="settings-secret">
        <code>{secret}</code> <CopyButton text={secret} label="Copy the secret" />
      </p>
      <div className="dialog-foot">
        <button type="button" className="btn primary" onClick={onClose}>
          I have copied it
        </button>
      </div>
    </Dialog>
  );
}
