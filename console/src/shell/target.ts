/** The page of a pasted id: of a run, a gate or a step of a run. */
const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const RUN = new RegExp(`^(${UUID})$`, "i");
const STEP = new RegExp(`^(${UUID}):([^\\s:]+)(:\\d+)?$`, "i");

/** Gates have ids `RUN:STEP:NUMBER`, as `holdfast gates list` shows them; a step is `RUN:STEP`. */
export function targetOf(text: string): { to: string; words: string } | null {
  const trimmed = text.trim();
  const run = RUN.exec(trimmed)?.[1];
  if (run) return { to: `/runs/${run.toLowerCase()}`, words: "Open the run" };
  const [, of, step, number] = STEP.exec(trimmed) ?? [];
  if (!of || !step) return null;
  if (number) return { to: `/inbox/${encodeURIComponent(trimmed)}`, words: "Open the approval request" };
  return { to: `/runs/${of.toLowerCase()}?${new URLSearchParams({ step })}`, words: `Open the step ${step}` };
}
