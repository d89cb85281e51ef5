import { lazy, type ReactNode, Suspense, useState } from "react";
import { isExact, write } from "@/api/exact";
import { labelOf } from "@/parts/difference";
import { ForeignText } from "@/parts/ForeignText";
import { Json } from "@/parts/Json";
import { isObject } from "@/parts/schema";
import "./Material.css";

const LongText = lazy(() => import("@/parts/LongText"));

/** Text up to this stands in its line; longer text, or text of several lines, is a block. */
const LINE = 120;
/** Of longer text the beginning is shown first. */
const LONG = 20_000;
const BEGINNING = 4_000;
const MAX_DEPTH = 4;
const MAX_PARTS = 300;
const MAX_COLUMNS = 6;

interface Props {
  /** Anything that a workflow shows to a person. */
  value: unknown;
  /** Fields of the outermost object that stand elsewhere on the page. */
  without?: readonly string[];
}

/** Data for a reader: an object as labelled fields, long text as text, equal objects as a table. What is too large or too deep
 * for that is JSON. */
export function Material({ value, without = [] }: Props) {
  if (partsOf(value) > MAX_PARTS) return <Json value={value} label="the data" height="50vh" />;
  if (!isObject(value)) return <Value value={value} depth={0} name="the data" />;
  const fields = Object.entries(value).filter(([name]) => !without.includes(name));
  return fields.length === 0 ? null : <Labelled fields={fields} depth={0} />;
}

function Labelled({ fields, depth }: { fields: [string, unknown][]; depth: number }) {
  return (
    <dl className="material">
      {fields.map(([name, each]) => (
        <div key={name} data-block={isBlock(each) ? "" : undefined}>
          <dt title={name}>
            <ForeignText text={labelOf(name)} />
          </dt>
          <dd>
            <Value value={each} depth={depth} name={name} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({ value, depth, name }: { value: unknown; depth: number; name: string }): ReactNode {
  if (value === null || value === undefined) return <span className="faint">none</span>;
  if (typeof value === "boolean") return value ? "Yes" : "No";
  if (typeof value === "number" || isExact(value)) return <span className="material-number">{write(value)}</span>;
  if (typeof value === "string") return <Text text={value} name={name} />;
  if (depth >= MAX_DEPTH) return <Json value={value} label={name} height="30vh" />;
  if (Array.isArray(value)) return <List items={value} depth={depth} name={name} />;
  const fields = Object.entries(value as Record<string, unknown>);
  if (fields.length === 0) return <span className="faint">none</span>;
  return <Labelled fields={fields} depth={depth + 1} />;
}

function List({ items, depth, name }: { items: unknown[]; depth: number; name: string }) {
  if (items.length === 0) return <span className="faint">none</span>;
  const columns = columnsOf(items);
  if (columns) {
    return (
      <div className="material-scroll">
        <table className="material-table">
          <thead>
            <tr>
              {columns.map((each) => (
                <th key={each} scope="col">
                  <ForeignText text={labelOf(each)} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {items.map((item, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: items of a list have no other identity
              <tr key={index}>
                {columns.map((each) => (
                  <td key={each}>
                    <Value value={(item as Record<string, unknown>)[each]} depth={depth + 1} name={each} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    );
  }
  return (
    <ul className="material-list">
      {items.map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: items of a list have no other identity
        <li key={index}>
          <Value value={item} depth={depth + 1} name={`${name} ${index + 1}`} />
        </li>
      ))}
    </ul>
  );
}

function Text({ text, name }: { text: string; name: string }) {
  const [isOpen, setOpen] = useState(false);
  if (text === "") return <span className="faint">empty</span>;
  if (text.length <= LONG) return <ForeignText text={text} isBlock={isBlock(text)} />;
  if (isOpen) {
    return (
      <Suspense fallback={<ForeignText text={text.slice(0, BEGINNING)} isBlock />}>
        <LongText text={text} label={name} />
      </Suspense>
    );
  }
  return (
    <>
      <ForeignText text={text.slice(0, BEGINNING)} isBlock />
      <button type="button" className="btn" onClick={() => setOpen(true)}>
        Show all {text.length.toLocaleString("en")} characters
      </button>
    </>
  );
}

function isBlock(value: unknown): boolean {
  if (typeof value === "string") return value.length > LINE || value.includes("\n");
  return typeof value === "object" && value !== null && !isExact(value) && Object.keys(value).length > 0;
}

function columnsOf(items: unknown[]): string[] | null {
  if (items.length < 2 || !items.every(isObject)) return null;
  const names = [...new Set(items.flatMap((item) => Object.keys(item as object)))];
  const areFlat = items.every((item) => Object.values(item as object).every((each) => !isBlock(each)));
  return names.length > 0 && names.length <= MAX_COLUMNS && areFlat ? names : null;
}

function partsOf(value: unknown): number {
  let found = 0;
  const left = [value];
  while (left.length > 0 && found <= MAX_PARTS) {
    const each = left.pop();
    found += 1;
    if (Array.isArray(each)) left.push(...each.slice(0, MAX_PARTS + 1));
    else if (isObject(each)) left.push(...Object.values(each));
  }
  return found;
}
