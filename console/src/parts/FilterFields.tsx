import { useEffect, useId, useRef, useState } from "react";
import type { Filter, Filters } from "@/parts/filters";
import { useKeys } from "@/parts/keys";
import "./FilterFields.css";

const SETTLES_MS = 300;

/** The filters of a list as fields, one each. `/` leads to the first. */
export function FilterFields({ filters, set }: { filters: readonly Filter[]; set: Filters }) {
  const bar = useRef<HTMLElement>(null);
  useKeys([{ key: "/", words: "Filter", run: () => bar.current?.querySelector<HTMLElement>("input,button")?.focus() }]);
  if (filters.length === 0) return null;
  return (
    <search className="filter-fields" ref={bar}>
      {filters.map((filter) =>
        filter.choices ? (
          <Choices key={filter.name} filter={filter} set={set} choices={filter.choices} />
        ) : (
          <Text key={filter.name} filter={filter} set={set} />
        ),
      )}
    </search>
  );
}

function Choices({ filter, set, choices }: { filter: Filter; set: Filters; choices: NonNullable<Filter["choices"]> }) {
  const value = set.values[filter.name] ?? "";
  return (
    <fieldset className="filter-choices">
      <legend className="unseen">{filter.title}</legend>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          className={choice.value === value ? "chip on" : "chip"}
          aria-pressed={choice.value === value}
          onClick={() => set.set(filter.name, choice.value)}
        >
          {choice.words}
        </button>
      ))}
    </fieldset>
  );
}

/** Text goes to the server when the person pauses, or at once with Enter. */
function Text({ filter, set }: { filter: Filter; set: Filters }) {
  const value = set.values[filter.name] ?? "";
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const { set: apply } = set;
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => apply(filter.name, text.trim()), SETTLES_MS);
    return () => clearTimeout(timer);
  }, [text, value, apply, filter.name]);
  const offered = useId();
  const input = (
    <input
      className="field"
      list={filter.suggestions ? offered : undefined}
      type={filter.isDate ? "date" : "search"}
      aria-label={filter.title}
      placeholder={filter.title}
      value={text}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => setText(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") apply(filter.name, text.trim());
        if (event.key === "Escape") event.currentTarget.blur();
      }}
    />
  );
  // A field of a date has no place for its name.
  return filter.isDate ? (
    <span className="filter-date">
      <span className="faint">{filter.title}</span>
      {input}
    </span>
  ) : (
    <>
      {input}
      {filter.suggestions ? (
        <datalist id={offered}>
          {filter.suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      ) : null}
    </>
  );
}
