import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Navigate, useNavigate, useSearchParams } from "react-router";
import { send } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { queries } from "@/api/queries";
import { nextPage, providerAddress, type Way, waysOf } from "@/pages/sign-in/ways";
import { State } from "@/parts/State";
import "./SignIn.css";

/** Errors of a printed address that was opened again: nothing to say to one who is signed in. */
const OF_CODE: readonly (string | null)[] = ["used", "wrong_code"];

/** Signs in this browser, in one of the server's ways, and goes on to the page that was asked for. */
export default function SignIn() {
  const [asked] = useSearchParams();
  const next = nextPage(asked.get("next"));
  const found = useQuery({ queryKey: ["sign-in"], queryFn: waysOf, staleTime: 0 });
  const code = asked.get("error");
  const error = found.data?.errors.find((each) => each.code === code);
  if (found.data?.signed_in && (code === null || OF_CODE.includes(code))) return <Navigate to={next} replace />;
  return (
    <main className="sign-in">
      <title>Sign in · Holdfast</title>
      <h1>Sign in to Holdfast</h1>
      {code === null || found.isPending ? null : (
        <p role="alert" className="sign-in-error">
          {error?.words ?? "The sign-in failed. Try again."}
        </p>
      )}
      <State
        isLoading={found.isPending}
        problem={found.error ? asProblem(found.error) : null}
        again={() => void found.refetch()}
        noun="the ways to sign in"
      >
        {found.data?.ways.map((way) =>
          way.way === "token" ? (
            <ByToken key={way.way} way={way} next={next} />
          ) : (
            <a key={way.way} className="btn primary" href={providerAddress(way, next)}>
              Sign in with {way.title}
            </a>
          ),
        )}
      </State>
      <p className="muted">
        With <code>holdfast dev</code>, open the address that it printed.
      </p>
    </main>
  );
}

function ByToken({ way, next }: { way: Way; next: string }) {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const navigate = useNavigate();

  const signIn = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await send("POST", way.address, { body: { token: token.trim() } });
      queries.clear();
      await navigate(next, { replace: true });
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };

  return (
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
  );
}
