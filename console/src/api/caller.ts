import type { Schemas } from "@/api/client";
import { useRow } from "@/api/queries";

type Grant = Schemas["Grant"];

/** Who you are, and your grants. Undefined until the server has answered. */
export function useCaller(): Schemas["CallerRow"] | undefined {
  return useRow("/api/v1/me", undefined, { staleTime: 60_000 }).row;
}

/** True if the caller holds the grant; a page shows what it forbids disabled, with the grant's name. */
export function useMay(grant: Grant): boolean {
  return holds(useCaller()?.may ?? [], grant);
}

/** An admin holds every grant, and each grant includes the viewer's. */
export function holds(may: readonly Grant[], grant: Grant): boolean {
  return may.includes("admin") || may.includes(grant) || (grant === "viewer" && may.length > 0);
}
