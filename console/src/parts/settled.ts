/** New rows wait until they are asked for, so that nothing moves under the pointer. */
import { useEffect, useRef, useState } from "react";

/** Rows newest first. `fresh` counts those that wait; `show` lets them in. Known rows change in place. */
export function useSettled<R>(rows: readonly R[], idOf: (row: R) => string, topic: string) {
  const [first, setFirst] = useState<string | null>(null);
  const about = useRef(topic);
  const top = rows[0];
  const index = first === null ? -1 : rows.findIndex((row) => idOf(row) === first);
  const isOther = about.current !== topic;
  useEffect(() => {
    about.current = topic;
    // Another filter, the first answer, or the row at the top is gone: what comes now is what is shown.
    if (isOther || index === -1) setFirst(top === undefined ? null : idOf(top));
  }, [isOther, index, top, idOf, topic]);
  const fresh = isOther || index === -1 ? 0 : index;
  return {
    rows: fresh === 0 ? rows : rows.slice(fresh),
    fresh,
    show: () => setFirst(top === undefined ? null : idOf(top)),
  };
}
