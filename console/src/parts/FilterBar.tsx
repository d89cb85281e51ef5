import { type ReactNode, useEffect, useRef, useState } from "react";
import { useKeys } from "@/parts/keys";
import "./FilterBar.css";

interface Props {
  /** The filter that holds now, from the address. */
  text: string;
  onChange: (text: string) => void;
  /** For a pasted id: opens the thing and returns true. */
  open?: (text: string) => boolean;
  placeholder: string;
  label: string;
  /** Words that were not understood. */
  wrong?: readonly string[];
  /** Chips, and facts at the right. */
  children?: ReactNode;
}

const PAUSE_MS = 300;

/** The filter of a list as text. It holds after a short pause, or at once with Enter. `/` goes to it. */
export function FilterBar({ text, onChange, open, placeholder, label, wrong = [], children }: Props) {
  const [typed, setTyped] = useState(text);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return;
    const timer = setTimeout(() => onChange(typed.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, text, onChange]);
  useKeys([
    {
      key: "/",
      words: "Go to the filter",
      run: () => {
        input.current?.focus();
        input.current?.select();
      },
    },
  ]);
  return (
    <div className="filter-bar">
      <search className="filter-text">
        <input
          ref={input}
          className="field"
          type="search"
          aria-label={label}
          placeholder={placeholder}
          value={typed}
          aria-invalid={wrong.length > 0}
          spellCheck={false}
          onChange={(event) => setTyped(event.target.value)}
          onPaste={(event) => {
            if (open?.(event.clipboardData.getData("text").trim())) event.preventDefault();
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") {
              // An id that leads elsewhere is no filter, or it would be one before the other page is there.
              if (open?.(typed.trim())) setTyped(text);
              else onChange(typed.trim());
            }
            if (event.key === "Escape") input.current?.blur();
          }}
        />
        {wrong.length > 0 ? <div className="form-error">Not understood: {wrong.join(", ")}</div> : null}
      </search>
      {children}
    </div>
  );
}
