import { useId, useState } from "react";
import type { Schemas } from "@/api/client";
import { queries } from "@/api/queries";
import { actAs, useActing } from "@/parts/acting";
import { Dialog, useClose } from "@/parts/Dialog";

/** At a server that takes a caller's word: in whose name one decides. */
export function ActingAs({ caller }: { caller: Schemas["CallerRow"] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <p className="acting muted">
      {caller.name ? (
        <>
          You decide as <strong>{caller.name}</strong>
          {caller.roles.length > 0 ? ` (${caller.roles.join(", ")})` : ""}.{" "}
        </>
      ) : (
        "This server does not know your name, and some gates ask for one. "
      )}
      <button type="button" className="acting-change" onClick={() => setOpen(true)}>
        {caller.name ? "Change" : "Enter your name"}
      </button>
      <Dialog
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        title="In whose name do you decide?"
        words="This server does not verify names. It keeps yours with each decision, as not verified."
      >
        <ActingForm onSaved={() => setOpen(false)} />
      </Dialog>
    </p>
  );
}

interface FormProps {
  /** Names and roles of those who may decide a gate, if the form stands there. */
  reviewers?: readonly string[];
  onSaved?: () => void;
}

/** The name and the roles that a person claims. */
export function ActingForm({ reviewers, onSaved }: FormProps) {
  const held = useActing();
  const cancel = useClose();
  const [name, setName] = useState(held.name);
  const [roles, setRoles] = useState(held.roles);
  const id = useId();
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        actAs({ name, roles });
        onSaved?.();
        void queries.invalidateQueries();
      }}
    >
      {reviewers ? (
        <p role="note">
          Only <strong>{reviewers.join(" or ")}</strong> may decide. Enter your name, or a role that you have. This
          server does not verify them, and keeps them with the decision.
        </p>
      ) : null}
      <div className="form-field">
        <label htmlFor={`${id}-name`}>Name</label>
        <input
          id={`${id}-name`}
          className="field"
          autoComplete="username"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <div className="form-field">
        <label htmlFor={`${id}-roles`}>Roles, separated by commas (optional)</label>
        <input
          id={`${id}-roles`}
          className="field"
          autoComplete="off"
          placeholder={reviewers ? `for example ${reviewers[0]}` : undefined}
          value={roles}
          onChange={(event) => setRoles(event.target.value)}
        />
      </div>
      <div className="dialog-foot">
        {cancel ? (
          <button type="button" className="btn" onClick={cancel}>
            Cancel
          </button>
        ) : null}
        <button type="submit" className="btn primary">
          {reviewers ? "Continue" : "Save"}
        </button>
      </div>
    </form>
  );
}
