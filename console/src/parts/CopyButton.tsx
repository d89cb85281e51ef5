import { useEffect, useState } from "react";
import "./CopyButton.css";

const SHOWN_MS = 1_500;

/** Copies what is stored, not what is shown. */
export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  useEffect(() => {
    if (state === "ready") return;
    const timer = setTimeout(() => setState("ready"), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState("copied");
    } catch {
      setState("failed");
    }
  };
  const words = { ready: label, copied: "Copied", failed: "The browser did not allow the copy" }[state];
  return (
    <button type="button" className="copy" title={words} aria-label={words} onClick={copy} data-state={state}>
      <svg viewBox="0 0 16 16" width="12" height="12" aria-hidden="true">
        {state === "copied" ? <path d="M3 8.5 6.5 12 13 4.5" /> : <path d="M6 6h7v7H6zM3 10V3h7" />}
      </svg>
    </button>
  );
}
