import type { ReactNode } from "react";
import "./Facts.css";

/** Facts with their names. One that is null is left out. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="kv">
      {facts.map(([name, value]) =>
        value === null || value === undefined ? null : (
          <div key={name} className="kv-line">
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
