import type { Paths } from "@/api/client";

/** What a POST takes. */
export type Body<P extends keyof Paths> = Paths[P] extends {
  post: { requestBody: { content: { "application/json": infer B } } };
}
  ? B
  : never;
