import { useState } from "react";
import { holds, useCaller } from "@/api/caller";
import type { Schemas } from "@/api/client";
import { type Row, useCommand } from "@/api/queries";
import { ActionButton, ConfirmDialog, FormAction } from "@/parts/Action";
import { useAddress } from "@/parts/address";
import { ForeignText } from "@/parts/ForeignText";
import { List } from "@/parts/ListPage";
import { Status } from "@/parts/Status";
import type { Schema } from "@/parts/schema";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Session = Row<"/api/v1/sessions">;
const TOUCHES = ["/api/v1/sessions"] as const;
const EVERY_MS = 10_000;
/** The name of whoever comes with a token that names nobody. */
const SHARED = "anybody";
const OWN = {};
const ALL = { name: "*" };
const PERSON: Schema = {
  type: "object",
  required: ["name"],
  properties: { name: { type: "string", title: "Person, token or key", minLength: 1 } },
};

/** Browsers that are signed in: one's own, and for an administrator those of others. */
export function Sessions() {
  const isAdmin = holds(useCaller()?.may ?? [], "admin");
  const [whose, setWhose] = useAddress("whose");
  const isAll = isAdmin && whose === "all";
  const [ending, setEnding] = useState<Session | null>(null);
  const [ended, setEnded] = useState<Schemas["SessionsEndedRow"] | null>(null);
  const endAll = useCommand("/api/v1/sessions/end", { touches: TOUCHES });
  const columns: readonly Column<Session>[] = [
    {
      name: "name",
      title: "Who",
      width: "minmax(0, 1.4fr)",
      narrow: "main",
      cell: (row) => (
        <>
          <strong>{row.name === SHARED ? "the shared token" : <ForeignText text={row.name} />}</strong>{" "}
          {row.current ? <Status status="completed" words="this browser" /> : null}
        </>
      ),
    },
    {
      name: "way",
      title: "Signed in",
      width: "minmax(0, 1.2fr)",
      cell: (row) => (row.way === "token" ? "with a token or key" : "at the identity provider"),
    },
    {
      name: "origin",
      title: "From",
      width: "minmax(0, 1fr)",
      cell: (row) => row.origin ?? <span className="faint">unknown</span>,
    },
    { name: "began", title: "Since", width: "110px", cell: (row) => <Time at={row.began_at} /> },
    { name: "expires", title: "Ends", width: "110px", cell: (row) => <Time at={row.expires_at} /> },
    {
      name: "act",
      title: "",
      width: "84px",
      cell: (row) => <ActionButton label="End…" needs="viewer" onClick={() => setEnding(row)} />,
    },
  ];
  return (
    <>
      {isAdmin ? (
        <div className="line settings-bar">
          <button
            type="button"
            className={isAll ? "chip" : "chip on"}
            aria-pressed={!isAll}
            onClick={() => setWhose("")}
          >
            my sessions
          </button>
          <button
            type="button"
            className={isAll ? "chip on" : "chip"}
            aria-pressed={isAll}
            onClick={() => setWhose("all")}
          >
            all sessions
          </button>
          <FormAction
            label="End all of a person…"
            needs="admin"
            look="danger"
            title="End all sessions of a person"
            words="Each browser of theirs has to sign in again, at once. The token or key stays valid: revoke a key to end that too."
            command={endAll}
            schema={PERSON}
            submit="End the sessions"
            run={async (value) => {
              const answer = await endAll.run({ body: value as { name: string } });
              if (answer) setEnded(answer);
              return answer;
            }}
          />
        </div>
      ) : null}
      {ended ? (
        <p className="settings-done" role="status">
          {ended.ended === 1 ? "1 session" : `${ended.ended} sessions`} of <ForeignText text={ended.name} /> ended.
        </p>
      ) : null}
      <List
        title="Sessions"
        noun="sessions"
        path="/api/v1/sessions"
        query={isAll ? ALL : OWN}
        columns={columns}
        idOf={(row) => row.session}
        tenantOf={(row) => row.tenant}
        every={EVERY_MS}
        hint="A browser that signs in to this console has a session, for 12 hours."
      />
      {ending ? <End row={ending} onClose={() => setEnding(null)} /> : null}
    </>
  );
}

function End({ row, onClose }: { row: Session; onClose: () => void }) {
  const command = useCommand("/api/v1/sessions/{session}/end", { touches: TOUCHES });
  return (
    <ConfirmDialog
      title={
        row.current
          ? "End the session of this browser?"
          : `End this session of ${row.name === SHARED ? "the shared token" : row.name}?`
      }
      confirm="End the session"
      look="danger"
      command={command}
      onClose={onClose}
      run={async () => {
        const answer = await command.run({ path: { session: row.session } });
        if (answer && row.current) location.assign("/sign-in");
        return answer;
      }}
    >
      <p>
        {row.current ? "You are signed out here at once." : "That browser has to sign in again, at once."} Nothing of a
        run changes.
      </p>
    </ConfirmDialog>
  );
}
