/** How one signs in at this server, as `GET /api/v1/sign-in` lists it. */
import { send } from "@/api/client";
import { asProblem } from "@/api/problem";

export interface Way {
  way: "token" | "oidc";
  title: string;
  address: string;
}

export interface Ways {
  signed_in: boolean;
  ways: Way[];
  /** Errors that a sign-in at an identity provider, or with a printed code, can lead to. */
  errors: { code: string; words: string }[];
}

const TOKEN: Ways = {
  signed_in: false,
  ways: [{ way: "token", title: "API token", address: "/api/v1/session" }],
  errors: [],
};

/** Ask for the ways. A server that lists none takes tokens. */
export async function waysOf(): Promise<Ways> {
  try {
    return (await send("GET", "/api/v1/sign-in")).data as Ways;
  } catch (error) {
    if (asProblem(error).isMissing) return TOKEN;
    throw error;
  }
}

/** A path of this console only: never another origin. */
export function nextPage(asked: string | null): string {
  return asked?.startsWith("/") && !/^\/[/\\]/.test(asked) ? asked : "/runs";
}

/** The address that leads to the identity provider and back to the page that was asked for. */
export function providerAddress(way: Way, next: string): string {
  return `${way.address}?${new URLSearchParams({ next })}`;
}
