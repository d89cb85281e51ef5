import { lazy, type ReactNode, Suspense } from "react";
import { write } from "@/api/exact";
import { type Change, changes } from "@/parts/difference";
import { ForeignText } from "@/parts/ForeignText";
import "./Changes.css";

const TextDiff = lazy(() => import("@/parts/TextDiff"));

const SHORT = 60;

/** What an edit changes, field by field, before it is sent. */
export function Changes({ before, after }: { before: unknown; after: unknown }) {
  const found = changes(before, after);
  if (found.length === 0) return <p className="muted">Nothing is changed.</p>;
  return (
    <dl className="changes">
      {found.map((each) => (
        <div key={each.pointer}>
          <dt>
            <ForeignText text={each.label} />
          </dt>
          <dd>{isText(each) ? <Texts change={each} /> : <Values change={each} />}</dd>
        </div>
      ))}
    </dl>
  );
}

function Values({ change }: { change: Change }) {
  return (
    <>
      <del>{shown(change.before)}</del> <span aria-hidden="true">→</span> <ins>{shown(change.after)}</ins>
    </>
  );
}

function Texts({ change }: { change: Change }) {
  const before = textOf(change.before);
  const after = textOf(change.after);
  return (
    <Suspense fallback={<p className="faint">Comparing…</p>}>
      <TextDiff before={before} after={after} label={`Changes of ${change.label}`} height="40vh" />
    </Suspense>
  );
}

function isText({ before, after }: Change): boolean {
  return [before, after].some((each) => {
    const text = textOf(each);
    return text.length > SHORT || text.includes("\n");
  });
}

function textOf(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : write(value, 2);
}

function shown(value: unknown): ReactNode {
  if (value === undefined) return "left out";
  if (value === "") return "empty";
  return <ForeignText text={typeof value === "string" ? value : write(value)} />;
}
