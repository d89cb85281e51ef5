import type { Row } from "@/api/queries";
import { SetSchedule } from "@/pages/schedules/SetSchedule";
import { ForeignText } from "@/parts/ForeignText";
import { ListPage } from "@/parts/ListPage";
import { Status } from "@/parts/Status";
import type { Column } from "@/parts/Table";
import { Time } from "@/parts/Time";

type Schedule = Row<"/api/v1/schedules">;

const COLUMNS: readonly Column<Schedule>[] = [
  {
    name: "name",
    title: "Schedule",
    width: "minmax(0, 1.3fr)",
    narrow: "main",
    cell: (row) => (
      <strong>
        <ForeignText text={row.name} />
      </strong>
    ),
  },
  { name: "state", title: "State", width: "96px", cell: (row) => <ScheduleState row={row} /> },
  { name: "workflow", title: "Workflow", width: "minmax(0, 1fr)", cell: (row) => <ForeignText text={row.workflow} /> },
  {
    name: "cron",
    title: "Times",
    width: "minmax(0, 1.9fr)",
    cell: (row) => (
      <>
        <code>{row.cron}</code> <span className="faint">{row.timezone}</span>
      </>
    ),
  },
  { name: "next", title: "Next", width: "104px", cell: (row) => <Time at={row.next_times[0]} /> },
  {
    name: "last",
    title: "Last run",
    width: "minmax(0, 1.4fr)",
    narrow: "none",
    cell: (row) =>
      row.last_status ? (
        <>
          <Status status={row.last_status} /> <Time at={row.last_time} />
        </>
      ) : (
        <span className="faint">–</span>
      ),
  },
  { name: "fired", title: "Started", width: "60px", isNumber: true, narrow: "none", cell: (row) => row.fired },
];

export function ScheduleState({ row }: { row: Schedule }) {
  if (row.paused) return <Status status="paused" />;
  return row.problem ? <Status status="failed" words="cannot start" /> : <Status status="active" words="active" />;
}

export function addressOf(row: Pick<Schedule, "name" | "tenant">): string {
  return `/schedules/${encodeURIComponent(row.name)}?${new URLSearchParams({ tenant: row.tenant })}`;
}

export default function Schedules() {
  return (
    <ListPage
      title="Schedules"
      noun="schedules"
      path="/api/v1/schedules"
      columns={COLUMNS}
      idOf={(row) => `${row.tenant}/${row.name}`}
      linkOf={addressOf}
      nameOf={(row) => `Schedule ${row.name}`}
      tenantOf={(row) => row.tenant}
      every={10_000}
      hint="A schedule starts a run of a workflow at each time of a cron line."
      actions={<SetSchedule label="New schedule…" />}
    />
  );
}
