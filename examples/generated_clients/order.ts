// Start an order, wait until it asks somebody, and approve what it shows: openapi-fetch, with the types that openapi-typescript
// makes. The address and the token of the server are its two arguments.

import createClient from "openapi-fetch";
import type { components, paths } from "./holdfast.js";

declare const process: { argv: string[] };

type Run = components["schemas"]["RunWhole"];

const [address, token] = process.argv.slice(2);
const api = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });

/** What was answered; a problem is thrown. */
function answer<T>(told: { data?: T; error?: components["schemas"]["Problem"] }): T {
  if (told.data === undefined) throw new Error(`${told.error?.code}: ${told.error?.detail}`);
  return told.data;
}

/** The run, as soon as it waits for somebody or has ended. */
async function watched(run: string): Promise<Run> {
  for (;;) {
    const params = { path: { run }, header: { Prefer: "wait=20" } };
    const seen = answer(await api.GET("/api/v1/runs/{run}", { params }));
    if (seen.status !== "running") return seen;
  }
}

const begun = answer(await api.POST("/api/v1/runs", { body: { workflow: "order", input: { item: "tea" }, key: "order-7" } }));
const run = await watched(begun.run_id);
if (run.status !== "waiting" || run.waiting_for[0]?.kind !== "gate") throw new Error(`it is ${run.status}`);

const page = answer(await api.GET("/api/v1/gates", { params: { query: { run: run.run_id } } }));
const gate = answer(await api.GET("/api/v1/gates/{gate}", { params: { path: { gate: page.rows[0]!.gate_id } } }));
const decided = answer(
  await api.POST("/api/v1/gates/{gate}/decision", {
    params: { path: { gate: gate.gate_id }, header: { "Holdfast-As": "ida" } },
    body: { decision: "approve", shown_hash: gate.shown_hash },
  }),
);

const done = await watched(decided.run_id);
console.log(`${done.status}: ${done.output}, for ${JSON.stringify(done.tags)} at ${done.cost_usd} dollars`);
