import { lazy, Suspense } from "react";
import { write } from "@/api/exact";
import { CopyButton } from "@/parts/CopyButton";
import "./Json.css";

const Editor = lazy(() => import("@/parts/JsonEditor"));

interface Props {
  /** Anything that the API answered. Numbers keep their digits. */
  value?: unknown;
  /** Or JSON as text, as it is edited. */
  text?: string;
  onChange?: (text: string) => void;
  label: string;
  /** Most that it takes of the page, like "50vh". */
  height?: string;
}

/** JSON to read, fold, search and copy, or to edit. The editor is loaded when the first is shown. */
export function Json({ value, text, onChange, label, height = "50vh" }: Props) {
  const shown = text ?? write(value ?? null, 2);
  return (
    <div className="json" {...(onChange ? { "data-editable": true } : {})}>
      <Suspense fallback={<pre className="json-plain">{shown.slice(0, 2_000)}</pre>}>
        <Editor text={shown} onChange={onChange} label={label} height={height} />
      </Suspense>
      <div className="json-copy">
        <CopyButton text={text ?? write(value ?? null, 2)} label={`Copy ${label}`} />
      </div>
    </div>
  );
}
