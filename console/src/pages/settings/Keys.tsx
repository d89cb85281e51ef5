import { useState } from "react";
import type { Body } from "@/api/bodies";
import { holds, useCaller } from "@/api/caller";
import type { Schemas } from "@/api/client";
import { type Row, useCommand } from "@/api/queries";
import { NewSecret } from "@/pages/settings/NewSecret";
import { ConfirmAction, FormAction } from "@/parts/Action";
import { ForeignText } from "@/parts/ForeignText";
import { List } from "@/parts/ListPage";
import { useNow } from "@/parts/now";
import { Status } from "@/parts/Status";
import type { Schema } from "@/parts/schema";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Key = Row<"/api/v1/keys">;
type NewKey = Schemas["NewKeyRow"];
const TOUCHES = ["/api/v1/keys"] as const;
const DAY_S = 86_400;
const GRANTS: readonly Schemas["Grant"][] = ["viewer", "operator", "reviewer", "author", "admin"];

/** API keys: made here with the secret shown once, replaced, and revoked. */
export function Keys() {
  const [made, setMade] = useState<NewKey | null>(null);
  const columns: readonly Column<Key>[] = [
    {
      name: "name",
      title: "Key",
      width: "minmax(0, 1.2fr)",
      narrow: "main",
      cell: (row) => (
        <strong>
          <ForeignText text={row.name} />
        </strong>
      ),
    },
    { name: "state", title: "State", width: "104px", cell: (row) => <KeyState row={row} /> },
    { name: "may", title: "Grants", width: "minmax(0, 1.1fr)", cell: (row) => row.may.join(", ") },
    { name: "reach", title: "Reaches", width: "minmax(0, 1.1fr)", cell: (row) => <Reach row={row} /> },
    {
      name: "expires",
      title: "Expires",
      width: "80px",
      cell: (row) => (row.expires_at ? <Time at={row.expires_at} /> : <span className="faint">never</span>),
    },
    {
      name: "made",
      title: "Created",
      width: "minmax(0, 1.1fr)",
      narrow: "none",
      cell: (row) => (
        <>
          <Time at={row.made_at} />{" "}
          <span className="faint">
            by <ForeignText text={row.made_by} />
          </span>
        </>
      ),
    },
    {
      name: "act",
      title: "",
      width: "176px",
      cell: (row) => (row.revoked_at || row.opens ? null : <Act row={row} onSecret={setMade} />),
    },
  ];
  return (
    <>
      {made ? <NewSecret name={made.name} secret={made.key} onClose={() => setMade(null)} /> : null}
      <div className="line settings-bar">
        <Create onSecret={setMade} />
      </div>
      <List
        title="API keys"
        noun="API keys"
        path="/api/v1/keys"
        columns={columns}
        idOf={(row) => `${row.tenant ?? ""}/${row.name}`}
        tenantOf={(row) => row.tenant}
        hint="A key lets a program call the API with its own grants. holdfast dev accepts it; holdfast serve does with --keys."
      />
    </>
  );
}

function KeyState({ row }: { row: Key }) {
  const now = useNow();
  if (row.revoked_at) return <Status status="cancelled" words={row.opens ? "used" : "revoked"} />;
  if (row.expires_at && Date.parse(row.expires_at) <= now) return <Status status="cancelled" words="expired" />;
  return <Status status="completed" words="works" />;
}

function Reach({ row }: { row: Key }) {
  if (row.opens) return <>one {row.opens.gate_id ? "decision" : "signal"} of a run</>;
  if (row.workflows.length === 1 && row.workflows[0] === "*") return <>every workflow</>;
  return <ForeignText text={row.workflows.join(", ")} />;
}

function Create({ onSecret }: { onSecret: (made: NewKey) => void }) {
  const caller = useCaller();
  const command = useCommand("/api/v1/keys", { touches: TOUCHES, keyed: false });
  const allowed = GRANTS.filter((grant) => caller && holds(caller.may, grant));
  const schema: Schema = {
    type: "object",
    required: ["name", "may"],
    properties: {
      name: {
        type: "string",
        title: "Name, for good",
        description: "Of a-z, 0-9, _, . and -, beginning with a letter or digit.",
        pattern: "^[a-z0-9][a-z0-9_.-]{0,63}$",
      },
      may: { enum: allowed, title: "Grant", default: "viewer" },
      ...(caller?.tenant === null
        ? { tenant: { type: "string", title: "Tenant", description: "Without it, all tenants." } }
        : {}),
      workflows: {
        type: "string",
        title: "Workflows that it reaches",
        description: "Names or patterns like order*, separated by commas. Without it, every workflow.",
      },
      days: {
        type: "integer",
        title: "Days until it expires",
        description: "Without it, never.",
        minimum: 1,
        maximum: 3650,
      },
    },
  };
  return (
    <FormAction
      label="New key…"
      needs="admin"
      look="primary"
      title="New API key"
      words="The secret is shown once, right after."
      command={command}
      schema={schema}
      submit="Create the key"
      run={async (value) => {
        const made = await command.run({ body: bodyOf(value as Given) });
        if (made) onSecret(made);
        return made;
      }}
    />
  );
}

interface Given {
  name: string;
  may: Schemas["Grant"];
  tenant?: string;
  workflows?: string;
  days?: number;
}

function bodyOf({ name, may, tenant, workflows, days }: Given): Body<"/api/v1/keys"> {
  const patterns = (workflows ?? "")
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
  return {
    name,
    may: [may],
    ...(tenant ? { tenant } : {}),
    ...(patterns.length > 0 ? { workflows: patterns } : {}),
    ...(days ? { life_s: days * DAY_S } : {}),
  } as Body<"/api/v1/keys">;
}

function Act({ row, onSecret }: { row: Key; onSecret: (made: NewKey) => void }) {
  const rotate = useCommand("/api/v1/keys/{name}/rotate", { touches: TOUCHES, keyed: false });
  const revoke = useCommand("/api/v1/keys/{name}/revoke", { touches: TOUCHES, keyed: false });
  const given = { path: { name: row.name }, body: row.tenant === null ? {} : { tenant: row.tenant } };
  return (
    <span className="line settings-act">
      <ConfirmAction
        label="Replace…"
        needs="admin"
        title={`Replace the secret of ${row.name}?`}
        confirm="Replace the secret"
        command={rotate}
        run={async () => {
          const made = await rotate.run(given);
          if (made) onSecret(made);
          return made;
        }}
      >
        The old secret stops working at once. The new one is shown once, right after.
      </ConfirmAction>
      <ConfirmAction
        label="Revoke…"
        needs="admin"
        look="danger"
        title={`Revoke ${row.name}?`}
        confirm="Revoke the key"
        command={revoke}
        run={() => revoke.run(given)}
      >
        It stops working at once and for good. Its name cannot be given to another key.
      </ConfirmAction>
    </span>
  );
}
