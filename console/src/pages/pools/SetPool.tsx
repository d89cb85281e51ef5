import type { Body } from "@/api/bodies";
import { useCommand } from "@/api/queries";
import { limitOf, type PoolRow } from "@/pages/pools/pool";
import { FormAction } from "@/parts/Action";
import type { Schema } from "@/parts/schema";

const TOUCHES = ["/api/v1/pools", "/api/v1/pools/{name}", "/api/v1/queue"] as const;
const MOST = 10_000_000_000;

const NAME: Schema = {
  type: "string",
  title: "Name",
  description: "As steps ask for it, like BROWSERS; NAME@TENANT is the pool of one tenant.",
  minLength: 1,
};
const SLOTS: Schema = { type: "integer", title: "Slots, held until a step ends", minimum: 1, maximum: MOST };
const RATE: Schema = { type: "integer", title: "Units in each period", minimum: 1, maximum: MOST };
const PER_S: Schema = { type: "integer", title: "Period in seconds", minimum: 1, maximum: 86_400, default: 1 };
const BURST: Schema = {
  type: "integer",
  title: "Units at once after a pause",
  description: "By default a tenth of the rate.",
};
const COUNTS: Schema = {
  enum: ["requests", "tokens", "input_tokens", "output_tokens"],
  title: "Counts, at a model provider",
  description: "Without it, steps ask for amounts of the pool.",
};
const OF: Schema = { type: "string", title: "Model or provider whose calls it counts" };

interface Given {
  name?: string;
  kind?: "slots" | "rate";
  slots?: number;
  rate?: number;
  per_s?: number;
  burst?: number;
  counts?: NonNullable<PoolRow["counts"]>;
  of?: string;
}

/** The form of a new pool, or of another limit for one. */
export function SetPool({ label, row }: { label: string; row?: PoolRow }) {
  const command = useCommand("/api/v1/pools", { touches: TOUCHES });
  const isRate = row?.kind === "rate";
  const properties: Record<string, Schema> = row
    ? isRate
      ? { rate: RATE, per_s: PER_S, burst: BURST }
      : { slots: SLOTS }
    : {
        name: NAME,
        slots: SLOTS,
        rate: { ...RATE, title: "Or a rate: units in each period" },
        per_s: PER_S,
        burst: BURST,
        counts: COUNTS,
        of: OF,
      };
  const initial: Given | undefined = row
    ? isRate
      ? { rate: row.limit, per_s: row.per_s ?? 1, ...(row.burst === null ? {} : { burst: row.burst }) }
      : { slots: row.limit }
    : undefined;
  return (
    <FormAction
      label={label}
      needs="admin"
      look={row ? undefined : "primary"}
      title={row ? `Change the limit of ${row.name}` : "New pool"}
      command={command}
      schema={{ type: "object", required: row ? [isRate ? "rate" : "slots"] : ["name"], properties }}
      {...(initial ? { initial } : {})}
      submit={row ? "Change the limit" : "Create the pool"}
      consequence={(value) => (row ? <Consequence row={row} given={(value ?? {}) as Given} /> : null)}
      run={(value) => command.run({ body: bodyOf(value as Given, row) })}
    />
  );
}

function bodyOf(given: Given, row: PoolRow | undefined): Body<"/api/v1/pools"> {
  const body = { ...given } as Body<"/api/v1/pools">;
  if (row) {
    body.name = row.name;
    if (row.counts) body.counts = row.counts;
    if (row.of) body.of = row.of;
  } else if (given.slots !== undefined) {
    delete body.per_s; // the form's default, for a rate
  }
  return body;
}

function Consequence({ row, given }: { row: PoolRow; given: Given }) {
  const limit = given.slots ?? given.rate;
  if (typeof limit !== "number" || limit === row.limit) return <>Now {limitOf(row)}.</>;
  return (
    <>
      {limitOf(row)} → {limitOf({ ...row, limit, per_s: given.per_s ?? row.per_s, burst: given.burst ?? null })}. Every
      process follows within seconds.{" "}
      {limit < row.limit ? "What is in use above the new limit stays in use until its steps end." : null}
    </>
  );
}
