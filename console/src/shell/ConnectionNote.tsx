import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { connection, subscribe } from "@/api/connection";
import { Time } from "@/parts/Time";

const SHOWN_MS = 4_000;

/** Reports a lost connection with the time of what is shown, and its return once. */
export function ConnectionNote() {
  const { state, asOf } = useSyncExternalStore(subscribe, connection);
  const [isBack, setBack] = useState(false);
  const before = useRef(state);
  useEffect(() => {
    const was = before.current;
    before.current = state;
    if (was !== "lost" || state !== "live") return;
    setBack(true);
    const timer = setTimeout(() => setBack(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [state]);
  return (
    <div role="status">
      {state === "lost" ? (
        <p className="note-line">
          Connection lost. This page shows the state as of <Time at={asOf} kind="exact" /> and reconnects by itself.
        </p>
      ) : isBack ? (
        <p className="note-line back">Connected again.</p>
      ) : null}
    </div>
  );
}
