import { createBrowserRouter, Navigate, type RouteObject, useRouteError } from "react-router";
import { onUnauthorized } from "@/api/client";
import { asProblem } from "@/api/problem";
import { PAGES, type Page } from "@/pages";
import { State } from "@/parts/State";
import { Missing } from "@/shell/Missing";
import { Shell } from "@/shell/Shell";
import { withFreshFiles } from "@/shell/stale-files";

function routeOf(page: Page): RouteObject {
  return {
    path: page.path,
    handle: page,
    lazy: async () => ({ Component: (await withFreshFiles(page.load)).default }),
    ErrorBoundary: Failed,
  };
}

function Failed() {
  const error = useRouteError();
  return <State problem={asProblem(error)} again={() => location.reload()} />;
}

function Blank() {
  return null;
}

export const router = createBrowserRouter([
  {
    Component: Shell,
    ErrorBoundary: Failed,
    HydrateFallback: Blank,
    children: [
      { path: "/", element: <Navigate to="/runs" replace /> },
      ...PAGES.filter((page) => !page.isBare).map(routeOf),
      { path: "*", Component: Missing },
    ],
  },
  ...PAGES.filter((page) => page.isBare).map((page) => ({ ...routeOf(page), HydrateFallback: Blank })),
]);

onUnauthorized(() => {
  if (location.pathname === "/sign-in") return;
  const next = `${location.pathname}${location.search}`;
  void router.navigate(`/sign-in?${new URLSearchParams({ next })}`, { replace: true });
});
