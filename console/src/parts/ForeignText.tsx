import { Fragment, useMemo } from "react";
import { pieces } from "@/parts/invisible";
import "./ForeignText.css";

/**
 * Text that a model, a customer or another system wrote. It is shown as text, never as markup; characters that a
 * reader would not see are marked, and its direction cannot leave it.
 */
export function ForeignText({ text, isBlock = false }: { text: string; isBlock?: boolean }) {
  const found = useMemo(() => pieces(text), [text]);
  const inside = found.map((each, index) =>
    each.marked ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no other identity, and never move
      <mark key={index} className="unseen-mark" title={each.marked}>
        {each.marked.split(" ")[0]}
      </mark>
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no other identity, and never move
      <Fragment key={index}>{each.text}</Fragment>
    ),
  );
  return isBlock ? <pre className="foreign foreign-block">{inside}</pre> : <bdi className="foreign">{inside}</bdi>;
}
