import { MergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { LOOK } from "@/parts/JsonEditor";
import "./Json.css";

interface Props {
  first: string;
  second: string;
  /** What they are, for those who do not see them: "Input". */
  label: string;
  height?: string;
}

const COLOURS = EditorView.theme({
  "&.cm-merge-a .cm-changedLine, &.cm-merge-b .cm-changedLine": { backgroundColor: "transparent" },
  "&.cm-merge-a .cm-changedText": { background: "var(--bad-soft)", color: "var(--bad)" },
  "&.cm-merge-b .cm-changedText": { background: "var(--ok-soft)", color: "var(--ok)" },
  ".cm-collapsedLines": { background: "var(--sunken)", color: "var(--muted)" },
});

/** Two texts beside one another, with what differs marked and what is the same folded. */
export default function SideBySide({ first, second, label, height = "50vh" }: Props) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const side = (doc: string, of: string) => ({
      doc,
      extensions: [
        LOOK,
        COLOURS,
        EditorView.contentAttributes.of({ "aria-label": `${label} of the ${of} run`, tabindex: "0" }),
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
      ],
    });
    const view = new MergeView({
      root,
      parent: root,
      a: side(first, "first"),
      b: side(second, "second"),
      gutter: false,
      collapseUnchanged: { margin: 3, minSize: 8 },
    });
    view.dom.style.maxHeight = height;
    view.dom.style.overflow = "auto";
    return () => view.destroy();
  }, [first, second, label, height]);
  return <div className="json" ref={host} />;
}
