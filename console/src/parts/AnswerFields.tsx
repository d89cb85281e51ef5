import { useId } from "react";
import type { Answer } from "@/parts/answer";

interface Props {
  label: string;
  value: Answer;
  change: (next: Partial<Answer>) => void;
}

/** The fields of an answer that has no form. */
export function AnswerFields({ label, value, change }: Props) {
  const id = useId();
  const isBlank = (value.answer ?? "").trim() === "";
  return (
    <div className="form-field">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        className="field"
        // biome-ignore lint/a11y/noAutofocus: the dialog's first field, as everywhere in dialogs
        autoFocus
        value={value.answer ?? ""}
        onChange={(event) => change({ answer: event.target.value, isEmpty: false })}
      />
      <label className="form-check">
        <input
          type="checkbox"
          checked={value.isJson ?? false}
          onChange={(event) => change({ isJson: event.target.checked })}
        />
        It is JSON, not text
      </label>
      <label className="form-check">
        <input
          type="checkbox"
          checked={isBlank && (value.isEmpty ?? false)}
          disabled={!isBlank}
          onChange={(event) => change({ isEmpty: event.target.checked })}
        />
        It is empty
      </label>
    </div>
  );
}
