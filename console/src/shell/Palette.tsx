import { Command } from "cmdk";
import { useDeferredValue, useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { useList } from "@/api/queries";
import { PAGES } from "@/pages";
import { Dialog } from "@/parts/Dialog";
import { ForeignText } from "@/parts/ForeignText";
import { setTheme, setZone } from "@/parts/preferences";
import { isRunBeginning, shortRun, startKey } from "@/parts/runs";
import { targetOf } from "@/shell/target";
import "./Palette.css";

const MOST_RUNS = 5;
const SHORTEST = 2;
const SETTINGS: ReadonlyMap<string, () => void> = new Map([
  ["Light theme", () => setTheme("light")],
  ["Dark theme", () => setTheme("dark")],
  ["Theme of the system", () => setTheme("system")],
  ["Times in local time", () => setZone("local")],
  ["Times in UTC", () => setZone("utc")],
]);

/** Go anywhere by name: pages, runs by their text, and the thing of a pasted id. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const text = useDeferredValue(typed.trim());
  const navigate = useNavigate();
  const target = targetOf(typed);
  const isSearch = target === null && text.length >= SHORTEST;
  const runs = useList(
    "/api/v1/runs",
    { query: { ...(isRunBeginning(text) ? { prefix: text.toLowerCase() } : { text }), limit: MOST_RUNS } },
    { enabled: isSearch },
  );
  const [chosen, setChosen] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const first = runs.rows[0];
  const firstValue = isSearch && first ? `${text} ${first.run_id}` : null;
  // Runs come after what is known at once: they go before this browser's settings.
  useEffect(() => {
    if (firstValue === null) return;
    const isSelected = list.current?.querySelector("[aria-selected=true]") != null;
    setChosen((before) => (isSelected && !SETTINGS.has(before) ? before : firstValue));
  }, [firstValue]);
  // cmdk keeps naming the option before, which may be gone, where the choice is not made by its own keys.
  useEffect(() => {
    const option = list.current?.querySelector("[aria-selected=true]");
    if (option?.id) input.current?.setAttribute("aria-activedescendant", option.id);
    else input.current?.removeAttribute("aria-activedescendant");
  });
  const go = (to: string) => {
    onClose();
    void navigate(to);
  };
  const act = (run: () => void) => {
    run();
    onClose();
  };
  return (
    <Dialog isOpen onClose={onClose} title="Go anywhere" isWide>
      <Command
        className="palette"
        label="Go anywhere"
        shouldFilter={target === null}
        value={chosen}
        onValueChange={setChosen}
        loop
      >
        <Command.Input
          ref={input}
          className="field"
          value={typed}
          onValueChange={setTyped}
          placeholder="A page, a run's text, or an id"
          autoFocus
        />
        <Command.List ref={list} className="palette-list" label="Results">
          <Command.Empty className="faint">Nothing matches.</Command.Empty>
          {target ? (
            <Command.Item value={typed} onSelect={() => go(target.to)}>
              {target.words}
            </Command.Item>
          ) : null}
          {target === null ? (
            <Command.Group heading="Pages">
              {PAGES.filter((page) => page.group).map((page) => (
                <Command.Item key={page.path} value={page.title} onSelect={() => go(page.path)}>
                  {page.title}
                  {page.key ? (
                    <span className="right">
                      <kbd>g</kbd> <kbd>{page.key}</kbd>
                    </span>
                  ) : null}
                </Command.Item>
              ))}
            </Command.Group>
          ) : null}
          {isSearch && runs.rows.length > 0 ? (
            <Command.Group heading="Runs">
              {runs.rows.map((run) => (
                <Command.Item
                  key={run.run_id}
                  value={`${text} ${run.run_id}`}
                  onSelect={() => go(`/runs/${run.run_id}`)}
                >
                  {run.workflow} <ForeignText text={startKey(run) ?? ""} />
                  <code className="faint right">{shortRun(run.run_id)}</code>
                </Command.Item>
              ))}
            </Command.Group>
          ) : null}
          {target === null ? (
            <Command.Group heading="This browser">
              {[...SETTINGS].map(([words, run]) => (
                <Command.Item key={words} value={words} onSelect={() => act(run)}>
                  {words}
                </Command.Item>
              ))}
            </Command.Group>
          ) : null}
        </Command.List>
      </Command>
    </Dialog>
  );
}
