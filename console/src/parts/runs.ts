const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const BEGINNING = /^[0-9a-f]{8}(?:-[0-9a-f]{0,4}){1,3}(?:-[0-9a-f]{0,12})?$/i;

/** The beginning of a run's id: the time in milliseconds and the first random digits. It can be pasted wherever an id is
 * asked for, here and at the command line. */
export function shortRun(run: string): string {
  return run.slice(0, 18);
}

/** Begins a key that the API made of a request's: it says nothing to a person. */
const MADE_UP = "http:";

/** The key under which a person or a program started a run. Null if there is none. */
export function startKey(run: { key?: string | null | undefined }): string | null {
  return run.key && !run.key.startsWith(MADE_UP) ? run.key : null;
}

export function isRunId(text: string): boolean {
  return UUID.test(text.trim());
}

/** True for a whole id and for its beginning, from the first hyphen on. */
export function isRunBeginning(text: string): boolean {
  return BEGINNING.test(text.trim());
}
