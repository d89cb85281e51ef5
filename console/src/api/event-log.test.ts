import { expect, test } from "vitest";
import { EventLog, type RunEvent } from "@/api/event-log";

const event = (seq: number) => ({ seq }) as RunEvent;

test("readings that overlap leave no gap and no repeat", async () => {
  let there = 3;
  const asked: number[] = [];
  const log = new EventLog(async (after) => {
    asked.push(after);
    await Promise.resolve();
    // As after a restart: the page begins before what was asked for.
    const from = Math.max(0, after - 1);
    const rows = Array.from({ length: Math.min(2, there - from) }, (_, index) => event(from + index + 1));
    const last = rows.at(-1)?.seq ?? 0;
    return { rows, cursor: last < there ? String(last) : null };
  });
  const reading = log.catchUp();
  there = 5;
  void log.catchUp();
  await reading;
  expect(log.snapshot.events.map((each) => each.seq)).toEqual([1, 2, 3, 4, 5]);
  expect(log.snapshot).toMatchObject({ count: 5, isLoading: false, problem: null });
});

test("a failed reading keeps what there is, and the next goes on after it", async () => {
  let fails = false;
  const log = new EventLog(async (after) => {
    if (fails) throw new Error("away");
    return { rows: [event(after + 1)], cursor: null };
  });
  await log.catchUp();
  fails = true;
  await log.catchUp();
  expect(log.snapshot).toMatchObject({ count: 1, problem: { detail: "away" } });
  fails = false;
  await log.catchUp();
  expect(log.snapshot).toMatchObject({ count: 2, problem: null });
});
