/** One flat list of the events of a run, whatever the order and number of the readings. */
import type { Schemas } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";

export type RunEvent = Schemas["EventRow"];

export interface History {
  /** By number, without gap or repeat. The same array grows: depend on `count`. */
  events: readonly RunEvent[];
  count: number;
  isLoading: boolean;
  problem: Problem | null;
  again: () => void;
}

type Read = (after: number) => Promise<{ rows: RunEvent[]; cursor: string | null }>;

export class EventLog {
  private readonly events: RunEvent[] = [];
  private isReading = false;
  private isWanted = false;
  private listeners = new Set<() => void>();
  snapshot: History;

  constructor(private readonly read: Read) {
    this.snapshot = { events: this.events, count: 0, isLoading: true, problem: null, again: () => void this.catchUp() };
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Read what there is after the last event. Asked for meanwhile, it reads once more. */
  async catchUp(): Promise<void> {
    this.isWanted = true;
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.isWanted) {
        this.isWanted = false;
        await this.readOn();
      }
      this.become({ isLoading: false, problem: null });
    } catch (error) {
      this.become({ isLoading: false, problem: asProblem(error) });
    } finally {
      this.isReading = false;
    }
  }

  private async readOn(): Promise<void> {
    while (true) {
      const page = await this.read(this.events.length);
      for (const each of page.rows) if (each.seq === this.events.length + 1) this.events.push(each);
      this.become({ count: this.events.length });
      if (page.cursor === null || page.rows.length === 0) return;
    }
  }

  private become(change: Partial<History>): void {
    this.snapshot = { ...this.snapshot, ...change };
    for (const each of this.listeners) each();
  }
}
