import { useEffect, useState } from "react";
import { Outlet, ScrollRestoration, useLocation } from "react-router";
import { useCaller } from "@/api/caller";
import { goLive } from "@/api/stream/live";
import { ConnectionNote } from "@/shell/ConnectionNote";
import { Navigation } from "@/shell/Navigation";
import "./Shell.css";

/** The frame of every page: navigation, who you are, the connection. */
export function Shell() {
  const [isOpen, setOpen] = useState(false);
  const { pathname } = useLocation();
  const isSignedIn = useCaller() !== undefined;
  useEffect(() => {
    if (isSignedIn) goLive();
  }, [isSignedIn]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu of a narrow screen closes with each change of page
  useEffect(() => setOpen(false), [pathname]);
  return (
    <div className="shell" data-menu={isOpen ? "open" : "closed"}>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <div className="shell-top">
        <button
          type="button"
          className="btn quiet"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </button>
        <strong>Holdfast</strong>
      </div>
      <Navigation />
      <main id="content" tabIndex={-1}>
        <ConnectionNote />
        <Outlet />
        <ScrollRestoration />
      </main>
    </div>
  );
}
