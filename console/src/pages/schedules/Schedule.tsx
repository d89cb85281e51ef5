import { useState } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { useCommand, useRow } from "@/api/queries";
import { ScheduleState } from "@/pages/schedules/Schedules";
import { SetSchedule } from "@/pages/schedules/SetSchedule";
import { ConfirmAction, FormAction } from "@/parts/Action";
import { Facts } from "@/parts/Facts";
import { ForeignText } from "@/parts/ForeignText";
import { Json } from "@/parts/Json";
import { Money } from "@/parts/Money";
import { Page } from "@/parts/Page";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";
import { Time } from "@/parts/Time";

const TOUCHES = ["/api/v1/schedules", "/api/v1/schedules/{name}"] as const;

export default function Schedule() {
  const { name = "" } = useParams();
  const [address] = useSearchParams();
  const tenant = address.get("tenant");
  const given = { path: { name }, query: tenant ? { tenant } : {} };
  const { row, isLoading, problem, again } = useRow("/api/v1/schedules/{name}", given, { every: 5_000 });
  return (
    <Page
      title={name}
      above={<Link to="/schedules">Schedules</Link>}
      facts={row ? <ScheduleState row={row} /> : null}
      actions={row ? <Actions row={row} given={given} /> : null}
    >
      <State isLoading={isLoading} problem={problem} again={again} noun="the schedule">
        {row ? <Details row={row} /> : null}
      </State>
    </Page>
  );
}

type ScheduleRow = NonNullable<ReturnType<typeof useRow<"/api/v1/schedules/{name}">>["row"]>;
interface Given {
  path: { name: string };
  query: { tenant?: string };
}

function Actions({ row, given }: { row: ScheduleRow; given: Given }) {
  const pause = useCommand("/api/v1/schedules/{name}/pause", { touches: TOUCHES });
  const resume = useCommand("/api/v1/schedules/{name}/resume", { touches: TOUCHES });
  const remove = useCommand("/api/v1/schedules/{name}", { method: "delete", touches: ["/api/v1/schedules"] });
  const navigate = useNavigate();
  return (
    <>
      <Backfill row={row} given={given} />
      <SetSchedule label="Change…" row={row} />
      {row.paused ? (
        <ConfirmAction
          label="Resume…"
          needs="operator"
          title={`Resume schedule ${row.name}?`}
          confirm="Resume the schedule"
          command={resume}
          run={() => resume.run({ path: given.path, body: given.query })}
        >
          It starts runs again from now on. Times that passed while it was paused are left out; backfill starts them.
        </ConfirmAction>
      ) : (
        <ConfirmAction
          label="Pause…"
          needs="operator"
          title={`Pause schedule ${row.name}?`}
          confirm="Pause the schedule"
          command={pause}
          run={() => pause.run({ path: given.path, body: given.query })}
        >
          It starts no runs until it is resumed: not at{" "}
          {row.next_times[0] ? <Time at={row.next_times[0]} kind="exact" /> : "any time"}, nor later. A run that is
          under way goes on.
        </ConfirmAction>
      )}
      <ConfirmAction
        label="Remove…"
        needs="operator"
        look="danger"
        title={`Remove schedule ${row.name}?`}
        confirm="Remove the schedule"
        command={remove}
        run={async () => {
          const answer = await remove.run(given);
          if (answer !== undefined) await navigate("/schedules");
          return answer;
        }}
      >
        No more runs start. The {row.fired} runs that it has started stay, and continue if they are under way.
      </ConfirmAction>
    </>
  );
}

function Backfill({ row, given }: { row: ScheduleRow; given: Given }) {
  const command = useCommand("/api/v1/schedules/{name}/backfill");
  const [started, setStarted] = useState<number | null>(null);
  return (
    <>
      {started === null ? null : (
        <span role="status" className="muted">
          {started} {started === 1 ? "run" : "runs"} started
        </span>
      )}
      <FormAction
        label="Backfill…"
        needs="operator"
        title={`Start past runs of ${row.name}`}
        words="Starts a run for each past time of the cron line, at most 1,000. Times that already had their run are left out."
        command={command}
        schema={{
          type: "object",
          required: ["since", "until"],
          properties: {
            since: { type: "string", title: "First day (UTC)", pattern: "^\\d{4}-\\d{2}-\\d{2}$", default: today() },
            until: {
              type: "string",
              title: "Last day (UTC), inclusive",
              pattern: "^\\d{4}-\\d{2}-\\d{2}$",
              default: today(),
            },
          },
        }}
        submit="Start the runs"
        run={async (value) => {
          const { since, until } = value as { since: string; until: string };
          const end = Math.min(Date.parse(until) + DAY_MS - 1, Date.now());
          const answer = await command.run({
            path: given.path,
            body: { ...given.query, since_ms: Date.parse(since), until_ms: end },
          });
          if (answer) setStarted(answer.rows.length);
          return answer;
        }}
      />
    </>
  );
}

const DAY_MS = 86_400_000;

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

function Details({ row }: { row: ScheduleRow }) {
  return (
    <div className="grid">
      {row.problem ? (
        <p className="card" role="alert">
          Its last run could not start: <ForeignText text={row.problem} />
        </p>
      ) : null}
      <div className="columns">
        <section className="card" aria-label="Times">
          <h2>Next times</h2>
          {row.next_times.length === 0 ? (
            <p className="muted">{row.paused ? "None while it is paused." : "None."}</p>
          ) : (
            <ol className="plain-list">
              {row.next_times.map((each) => (
                <li key={each}>
                  <Time at={each} kind="exact" />{" "}
                  <span className="faint">
                    <Time at={each} />
                  </span>
                </li>
              ))}
            </ol>
          )}
        </section>
        <section className="card" aria-label="Settings">
          <Facts
            facts={[
              [
                "Workflow",
                <Link key="w" to={`/workflows/${encodeURIComponent(row.workflow)}`}>
                  {row.workflow}
                </Link>,
              ],
              ["Version", row.version ?? "highest"],
              ["Cron line", <code key="c">{row.cron}</code>],
              ["Time zone", row.timezone],
              ["If the previous one is active", row.overlap],
              ["Cost limit", <Money key="m" usd={row.cost_limit_usd} none="the workflow's" />],
              ["Most delay", row.jitter_s ? `${row.jitter_s} s` : null],
              ["Leaves out after", `${row.catch_up_s} s`],
              ["Team budget", row.team_budget],
              ["Set by", row.by ? <ForeignText key="b" text={row.by} /> : null],
              ["Created", <Time key="t" at={row.created_at} />],
            ]}
          />
        </section>
        <section className="card" aria-label="Runs">
          <h2>Runs</h2>
          <Facts
            facts={[
              ["Started", row.fired],
              [
                "Last",
                row.last_run_id ? (
                  <Link key="r" to={`/runs/${row.last_run_id}`}>
                    <Status status={row.last_status ?? "unknown"} /> <Time at={row.last_time} />
                  </Link>
                ) : (
                  "none yet"
                ),
              ],
              ["Waits for the run before", row.queued_time ? <Time key="q" at={row.queued_time} kind="exact" /> : null],
              ["Skipped, as one was active", row.skipped || null],
              ["Missed without a process", row.missed || null],
              ["Missed times not counted", row.uncounted_s ? `${row.uncounted_s} s` : null],
            ]}
          />
        </section>
      </div>
      <section aria-label="Input">
        <h2>Input of each run{row.time_field ? `, with ${row.time_field} set to its time` : ""}</h2>
        <Json value={row.input} label="input" />
      </section>
    </div>
  );
}
