import { lazy, Suspense, useState } from "react";
import { useNavigate } from "react-router";
import { PAGES } from "@/pages";
import { type Key, useBoundKeys, useKeys } from "@/parts/keys";

const Palette = lazy(() => import("@/shell/Palette"));
const KeysList = lazy(() => import("@/shell/KeysList"));

/** The keys of every page: the palette, the list of keys, and `g` with a page's own. */
export function Keyboard() {
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  const bound = useBoundKeys();
  const navigate = useNavigate();
  const pages: Key[] = PAGES.flatMap((page) =>
    page.key ? [{ key: `g ${page.key}`, words: `Go to ${page.title}`, run: () => void navigate(page.path) }] : [],
  );
  useKeys([
    {
      key: "Ctrl k",
      words: "Go anywhere: a page, a run, an id",
      run: () => setOpen(open === "palette" ? null : "palette"),
    },
    { key: "?", words: "Show the keys of this page", run: () => setOpen("keys") },
    ...pages,
  ]);
  const close = () => setOpen(null);
  return (
    <>
      <button type="button" className="btn quiet keyboard-hint" onClick={() => setOpen("palette")}>
        <kbd>Ctrl K</kbd> go anywhere
      </button>
      <Suspense fallback={null}>
        {open === "palette" ? <Palette onClose={close} /> : null}
        {open === "keys" ? <KeysList keys={bound} onClose={close} /> : null}
      </Suspense>
    </>
  );
}
