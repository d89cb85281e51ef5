import { useState } from "react";
import { send, toSignIn } from "@/api/client";
import { queries } from "@/api/queries";

/** Ends this browser's session, at an identity provider too. */
export function SignOut() {
  const [words, setWords] = useState("Sign out");
  const signOut = async () => {
    setWords("Signing out…");
    try {
      const { data } = await send("DELETE", "/api/v1/session");
      queries.clear();
      const address = (data as { continue_at?: string | null } | null)?.continue_at;
      if (address) location.assign(address);
      else toSignIn();
    } catch {
      setWords("Sign out failed: try again");
    }
  };
  return (
    <button type="button" className="btn quiet keyboard-hint" disabled={words === "Signing out…"} onClick={signOut}>
      {words}
    </button>
  );
}
