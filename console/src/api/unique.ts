/** A name that no other has, also where the page did not come over HTTPS: there the browser has no `randomUUID`. */
export function unique(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}
