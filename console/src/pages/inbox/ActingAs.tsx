import { useId, useState } from "react";
import type { Schemas } from "@/api/client";
import { queries } from "@/api/queries";
import { actAs, useActing } from "@/parts/acting";
import { Dialog } from "@/parts/Dialog";

/** At a server that takes a caller's word: in whose name one decides. */
export function ActingAs({ caller }: { caller: Schemas["CallerRow"] }) {
  const held = useActing();
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState(held.name);
  const [roles, setRoles] = useState(held.roles);
  const id = useId();
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
        <form
          className="form"
          onSubmit={(event) => {
            event.preventDefault();
            actAs({ name, roles });
            setOpen(false);
            void queries.invalidateQueries();
          }}
        >
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
              value={roles}
              onChange={(event) => setRoles(event.target.value)}
            />
          </div>
          <div className="dialog-foot">
            <button type="submit" className="btn primary">
              Save
            </button>
          </div>
        </form>
      </Dialog>
    </p>
  );
}
