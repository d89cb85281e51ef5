/** An error of the API (RFC 9457), or of the way to it. Every failed query and command has one. */
export interface FieldError {
  pointer: string;
  detail: string;
}

const OVERTAKEN: ReadonlySet<string> = new Set(["already_decided", "run_ended"]);

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly FieldError[];
  /** By which the server's log finds the request. */
  readonly requestId: string | null;

  constructor(given: {
    status: number;
    code: string;
    title: string;
    detail: string;
    errors?: readonly FieldError[];
    requestId?: string | null;
  }) {
    super(given.detail || given.title);
    this.name = "Problem";
    this.status = given.status;
    this.code = given.code;
    this.title = given.title;
    this.detail = given.detail;
    this.errors = given.errors ?? [];
    this.requestId = given.requestId ?? null;
  }

  get isOffline(): boolean {
    return this.code === "offline";
  }

  get isForbidden(): boolean {
    return this.status === 403;
  }

  get isMissing(): boolean {
    return this.status === 404;
  }

  /** True if the thing changed since it was shown: read it again before another try. */
  get isConflict(): boolean {
    return this.status === 409 || this.status === 412;
  }

  /** True if somebody else has changed the thing, so that this no longer fits it. Nothing was done. */
  get isOvertaken(): boolean {
    return this.status === 412 || OVERTAKEN.has(this.code);
  }
}

export function problemOf(status: number, text: string): Problem {
  try {
    const body = JSON.parse(text);
    if (typeof body === "object" && body !== null && typeof body.title === "string") {
      const { title, detail, code, errors, trace_id } = body;
      return new Problem({
        status,
        title,
        code: String(code ?? status),
        detail: String(detail ?? ""),
        errors: Array.isArray(errors) ? errors : [],
        requestId: typeof trace_id === "string" ? trace_id : null,
      });
    }
  } catch {
    // A proxy's page, not our server's answer.
  }
  return new Problem({ status, code: String(status), title: `The server answered ${status}`, detail: "" });
}

export function offline(): Problem {
  return new Problem({
    status: 0,
    code: "offline",
    title: "The server cannot be reached",
    detail: "The page tries again by itself.",
  });
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new Problem({ status: 0, code: "console", title: "The page failed", detail });
}
