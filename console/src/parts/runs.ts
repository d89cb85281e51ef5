/** The end of a run's id: its beginning is a time, which runs that started together share. */
export function shortRun(run: string): string {
  return run.slice(-8);
}
