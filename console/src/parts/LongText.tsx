import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { CopyButton } from "@/parts/CopyButton";
import { LOOK } from "@/parts/JsonEditor";
import "./Json.css";

/** A line this long is broken for the eye: the editor would measure all of it. What is copied has no such breaks. */
const OVERLONG = /[^\n]{2000}(?=[^\n])/gu;

/** Text of any length to read, search and copy; only what is in view is drawn. Characters that are not seen are marked. */
export default function LongText({ text, label, height = "60vh" }: { text: string; label: string; height?: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text.replace(OVERLONG, "$&\n"),
        extensions: [
          LOOK,
          search({ top: true }),
          keymap.of(searchKeymap),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.theme({ "&": { maxHeight: height } }),
        ],
      }),
    });
    return () => view.destroy();
  }, [text, label, height]);
  return (
    <div className="json">
      <div className="json-copy">
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      <div ref={host} />
    </div>
  );
}
