import { read } from "@/api/exact";
import type { Block, Said } from "@/pages/conversations/said";
import { ForeignText } from "@/parts/ForeignText";
import { Material } from "@/parts/Material";

/** What an agent says and does, in its order: text as text, thinking and tool calls folded. */
export function Blocks({ said, isLive }: { said: Said; isLive: boolean }) {
  const last = said.at(-1);
  return (
    <>
      {said.map((each) => (
        <One key={each.source} block={each} isWriting={isLive && each === last && each.kind === "text"} />
      ))}
    </>
  );
}

function One({ block, isWriting }: { block: Block; isWriting: boolean }) {
  switch (block.kind) {
    case "text":
      return (
        <div className="turn-prose" data-writing={isWriting || undefined}>
          <ForeignText text={block.text} isBlock />
        </div>
      );
    case "thinking":
      return (
        <details className="turn-call">
          <summary>Thinking</summary>
          <ForeignText text={block.text} isBlock />
        </details>
      );
    case "value":
      return (
        <div className="turn-call">
          <span className="muted">{block.tool}</span> <Material value={block.value} />
        </div>
      );
    case "call":
      return (
        <details className="turn-call">
          <summary>
            <code>{block.tool}</code>{" "}
            <span className={block.hasFailed ? "turn-failed" : "faint"}>
              {block.result === undefined ? "called" : block.hasFailed ? "failed" : "answered"}
            </span>
          </summary>
          <Material value={parsed(block.text)} />
          {block.result === undefined ? null : (
            <div className="turn-result">
              <span className="faint">Result</span>
              <Material value={parsed(block.result)} />
            </div>
          )}
        </details>
      );
  }
}

/** Arguments and results are JSON where they are whole. */
function parsed(text: string): unknown {
  try {
    return read(text);
  } catch {
    return text;
  }
}
