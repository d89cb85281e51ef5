import { useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { send } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { queries } from "@/api/queries";
import { State } from "@/parts/State";
import "./SignIn.css";

/** Exchanges an API token for a session of this browser, and goes on to the page that was asked for. */
export default function SignIn() {
  const [asked] = useSearchParams();
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const navigate = useNavigate();

  const signIn = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await send("POST", "/api/v1/session", { body: { token: token.trim() } });
      queries.clear();
      await navigate(nextPage(asked.get("next")), { replace: true });
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <main className="sign-in">
      <title>Sign in · Holdfast</title>
      <h1>Sign in to Holdfast</h1>
      <form
        className="grid"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy && token.trim()) void signIn();
        }}
      >
        <label className="grid" htmlFor="token">
          <span className="muted">API token or key</span>
          <input
            id="token"
            className="field"
            type="password"
            autoComplete="off"
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        <State problem={problem} />
        <button type="submit" className="btn primary" disabled={isBusy || !token.trim()}>
          {isBusy ? "Signing in…" : "Sign in"}
        </button>
      </form>
      <p className="muted">
        With <code>holdfast dev</code>, open the address that it printed.
      </p>
    </main>
  );
}

/** A path of this console only: never another origin. */
function nextPage(asked: string | null): string {
  return asked?.startsWith("/") && !asked.startsWith("//") && !asked.startsWith("/\\") ? asked : "/runs";
}
