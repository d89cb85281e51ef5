import "./Meter.css";

export interface Part {
  /** Of the whole, 0 to 1. */
  share: number;
  tone: "text" | "busy" | "wait" | "doubt" | "bad" | "ok";
}

/** A share as the length of a bar. The numbers stand beside it: `label` is for those who do not see the bar. */
export function Meter({ parts, label }: { parts: readonly Part[]; label: string }) {
  return (
    <div className="bar meter" role="img" aria-label={label} title={label}>
      {parts.map((part) =>
        part.share > 0 ? (
          <i key={part.tone} data-tone={part.tone} style={{ width: `${Math.min(1, part.share) * 100}%` }} />
        ) : null,
      )}
    </div>
  );
}
