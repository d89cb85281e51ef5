import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { UNSEEN_CLASS } from "@/parts/invisible";

interface Props {
  text: string;
  onChange?: ((text: string) => void) | undefined;
  label: string;
  height: string;
}

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--ok)" },
  { tag: tags.number, color: "var(--wait)" },
  { tag: [tags.bool, tags.null], color: "var(--doubt)" },
]);

const THEME = EditorView.theme({
  "&": { fontSize: "12px", color: "var(--text)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-panels .cm-textfield, .cm-panels .cm-button": {
    background: "var(--sunken)",
    color: "var(--text)",
    border: "1px solid var(--line-strong)",
  },
  ".cm-foldPlaceholder": { background: "var(--idle-soft)", color: "var(--muted)", border: "none", padding: "0 6px" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--accent-soft) !important" },
  ".cm-searchMatch": { backgroundColor: "var(--wait-soft)", outline: "1px solid var(--wait)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-specialChar": { color: "var(--bad)" },
});

/** The characters that the part ForeignText marks, but for tabs and line ends. */
const MARKED = new RegExp(
  UNSEEN_CLASS.replace(String.raw`\p{Cc}`, String.raw`\u0000-\u0008\u000b-\u001f\u007f-\u009f`),
  "gu",
);

export const LOOK: Extension = [
  THEME,
  syntaxHighlighting(COLOURS),
  highlightSpecialChars({ specialChars: MARKED }),
  EditorView.lineWrapping,
];

const EXAMPLE = 'JSON, like "a text", 12 or {"name": "value"}';

/** CodeMirror in a shadow root: there it uses adopted style sheets, which the policy permits. */
export default function JsonEditor({ text, onChange, label, height }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const isEditable = onChange !== undefined;
  const first = useRef(text);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          LOOK,
          isEditable ? placeholder(EXAMPLE) : lineNumbers(),
          foldGutter(),
          json(),
          bracketMatching(),
          search({ top: true }),
          highlightSelectionMatches(),
          keymap.of([...searchKeymap, ...foldKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          EditorState.readOnly.of(!isEditable),
          EditorView.editable.of(isEditable),
          isEditable ? history() : [],
          EditorView.theme({
            "&": { maxHeight: height },
            ...(isEditable ? { ".cm-content": { minHeight: "4em" } } : {}),
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    if (isEditable && document.activeElement?.contains(element) && document.activeElement !== document.body)
      editor.focus();
    return () => {
      first.current = editor.state.doc.toString();
      editor.destroy();
      view.current = null;
    };
  }, [isEditable, label, height]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);

  return <div ref={host} />;
}
