import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { LOOK } from "@/parts/JsonEditor";
import "./Json.css";

interface Props {
  before: string;
  after: string;
  label: string;
  height?: string;
}

const COLOURS = EditorView.theme({
  ".cm-changedLine": { backgroundColor: "transparent" },
  ".cm-changedText": { background: "var(--ok-soft)", color: "var(--ok)" },
  "ins.cm-insertedLine": { textDecoration: "none" },
  ".cm-deletedChunk": { backgroundColor: "transparent", padding: "0 0 0 6px" },
  ".cm-deletedChunk .cm-deletedText, .cm-deletedText": {
    background: "var(--bad-soft)",
    color: "var(--bad)",
    textDecoration: "line-through",
  },
  ".cm-deletedLine del": { textDecoration: "none" },
  ".cm-deletedLine": { color: "var(--muted)" },
  ".cm-changeGutter": { display: "none" },
});

/** Two versions of a text as one, with what was taken out and what was put in. */
export default function TextDiff({ before, after, label, height = "50vh" }: Props) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: after,
        extensions: [
          LOOK,
          COLOURS,
          unifiedMergeView({
            original: before,
            mergeControls: false,
            allowInlineDiffs: true,
            gutter: false,
            collapseUnchanged: { margin: 3, minSize: 8 },
          }),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.theme({ "&": { maxHeight: height } }),
        ],
      }),
    });
    return () => view.destroy();
  }, [before, after, label, height]);
  return <div className="json" ref={host} />;
}
