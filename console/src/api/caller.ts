import type { Schemas } from "@/api/client";
import { useRow } from "@/api/queries";

/** Who you are, and your grants. Undefined until the server has answered. */
export function useCaller(): Schemas["CallerRow"] | undefined {
  return useRow("/api/v1/me", undefined, { staleTime: 60_000 }).row;
}

/** True if the caller holds the grant; a page shows what it forbids disabled, with the grant's name. */
export function useMay(grant: Schemas["Grant"]): boolean {
  return useCaller()?.may.includes(grant) ?? false;
}
