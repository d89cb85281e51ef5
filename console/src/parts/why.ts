/** Addresses of the answer to "why does this wait?". */
export function addressOfWhy(run: string, step?: string | null): string {
  const asked = new URLSearchParams({ run });
  if (step) asked.set("step", step);
  return `/queue?${asked}`;
}
