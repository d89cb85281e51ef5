/** The typed client. Everything goes through `send`: exact numbers, problems, sign-in, and notes on the connection. */
import createClient from "openapi-fetch";
import { answered, failed } from "@/api/connection";
import { read, write } from "@/api/exact";
import { offline, problemOf } from "@/api/problem";
import type { components, paths } from "@/api/schema";
import { acting } from "@/parts/acting";

export type Schemas = components["schemas"];
export type Paths = paths;

const HTTP_UNAUTHORIZED = 401;

async function reach(request: Request): Promise<Response> {
  const { name, roles } = acting();
  if (name) request.headers.set("Holdfast-As", name);
  if (roles) request.headers.set("Holdfast-Roles", roles);
  try {
    const response = await fetch(request);
    answered();
    return response;
  } catch (error) {
    if (request.signal.aborted) throw error;
    failed();
    throw offline();
  }
}

const client = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? "",
  fetch: reach,
  credentials: "same-origin",
  bodySerializer: (body) => write(body),
});

export type Method = "GET" | "POST" | "DELETE";

export interface Sent {
  params?: { path?: Record<string, unknown>; query?: Record<string, unknown>; header?: Record<string, unknown> };
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Answer {
  data: unknown;
  /** The version of a row, for `If-Match`. */
  tag: string | null;
}

/** Send one request. Raises Problem. Pages use the typed hooks of `queries` instead. */
export async function send(method: Method, path: string, sent: Sent = {}): Promise<Answer> {
  const request = client.request as unknown as (
    method: string,
    path: string,
    init: unknown,
  ) => Promise<{ data?: string; error?: unknown; response: Response }>;
  const { data, error, response } = await request(method.toLowerCase(), path, { ...sent, parseAs: "text" });
  if (!response.ok) {
    if (response.status === HTTP_UNAUTHORIZED) toSignIn();
    throw problemOf(response.status, typeof error === "string" ? error : JSON.stringify(error));
  }
  return { data: data ? read(data) : null, tag: response.headers.get("etag") };
}

let signIn: (() => void) | null = null;

/** Set by the router: leads to the sign-in page and back. */
export function onUnauthorized(go: () => void): void {
  signIn = go;
}

/** Lead to the sign-in page. */
export function toSignIn(): void {
  signIn?.();
}
