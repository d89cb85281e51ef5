import type { Body } from "@/api/bodies";
import { useCaller } from "@/api/caller";
import type { Schemas } from "@/api/client";
import { useCommand, useRow } from "@/api/queries";
import { Balance } from "@/pages/budgets/Balance";
import { Days } from "@/pages/budgets/Days";
import { Limits } from "@/pages/budgets/Limits";
import { FilterFields } from "@/parts/FilterFields";
import { type Filter, useFilters } from "@/parts/filters";
import { LimitsForm } from "@/parts/LimitsForm";
import { Money } from "@/parts/Money";
import { RunLink } from "@/parts/RunLink";
import { State } from "@/parts/State";
import { Status } from "@/parts/Status";

type Book = Schemas["BookRow"];
const EVERY_MS = 2_000;
const TEAM: Filter = { name: "team", title: "Team" };
const BOTH: readonly Filter[] = [{ name: "tenant", title: "Tenant" }, TEAM];
const OWN: readonly Filter[] = [TEAM];
const DEFAULT_TENANT = "default";

/** The day and the month of a tenant or a team: spent, held and in doubt together, and who waits for room. */
export function Owner() {
  const caller = useCaller();
  const filters = caller?.tenant === null ? BOTH : OWN;
  const set = useFilters(filters);
  const tenant = caller?.tenant ?? (set.values.tenant || DEFAULT_TENANT);
  const team = set.values.team || undefined;
  const query = { tenant, ...(team ? { team } : {}) };
  const { row, isLoading, problem, again } = useRow(
    "/api/v1/budgets",
    { query },
    { every: EVERY_MS, enabled: caller !== undefined },
  );
  return (
    <>
      <FilterFields filters={filters} set={set} />
      <State isLoading={isLoading} problem={problem} again={again} noun="budgets">
        {row ? (
          <div className="grid">
            <div className="columns">
              {row.books.map((book) => (
                <BookCard key={book.period} book={book} tenant={row.tenant} team={row.team} />
              ))}
            </div>
            <Days tenant={row.tenant} team={row.team} />
          </div>
        ) : null}
      </State>
      <h2 className="budgets-all">All limits</h2>
      <Limits tenant={tenant} team={team ?? null} />
    </>
  );
}

interface BookProps {
  book: Book;
  tenant: string;
  team: string | null;
}

function BookCard({ book, tenant, team }: BookProps) {
  return (
    <section className="card grid budgets-book" aria-label={book.scope}>
      <header className="line">
        <h2>{book.scope}</h2>
        <span className="right">
          <SetLimit book={book} tenant={tenant} team={team} />
        </span>
      </header>
      <Balance
        limit={book.limit_usd}
        settled={book.settled_usd}
        held={book.held_usd}
        inDoubt={book.in_doubt_usd}
        left={book.left_usd}
      />
      {book.max_tokens === null && book.settled_tokens + book.held_tokens + book.in_doubt_tokens === 0 ? null : (
        <p className="muted">
          {count(book.settled_tokens)} tokens used, {count(book.held_tokens)} held, {count(book.in_doubt_tokens)} in
          doubt
          {book.max_tokens === null || book.left_tokens === null
            ? ", no limit"
            : `, ${count(book.left_tokens)} left of ${count(book.max_tokens)}`}
        </p>
      )}
      {book.waiting.length > 0 ? (
        <div>
          <Status status="waiting" words={`${count(book.waiting.length)} wait for room`} />
          <ul className="plain-list">
            {book.waiting.map((each) => (
              <li key={each.run_id}>
                <RunLink run={each.run_id} /> wants{" "}
                {each.wanted_usd === undefined ? (
                  `${count(each.wanted_tokens ?? 0)} tokens`
                ) : (
                  <Money usd={each.wanted_usd} />
                )}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
    </section>
  );
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function SetLimit({ book, tenant, team }: BookProps) {
  const command = useCommand("/api/v1/budgets", { touches: ["/api/v1/budgets"] });
  return (
    <LimitsForm
      label="Set the limit…"
      needs="admin"
      title={`Limit of each ${book.period} for ${team ? `team ${team} of ${tenant}` : `tenant ${tenant}`}`}
      words={`It holds for all runs together, from now on, in each ${book.period} (UTC). Calls that do not fit wait; leave a field empty for no limit.`}
      command={command}
      dollars={{ field: "limit_usd", title: "Dollars" }}
      leastTokens={0}
      now={{ usd: book.limit_usd, tokens: book.max_tokens }}
      submit="Set the limit"
      consequence={() => (
        <>
          Now: <Money usd={book.settled_usd} /> spent, <Money usd={book.held_usd} /> held,{" "}
          <Money usd={book.in_doubt_usd} /> in doubt. What is spent above a lower limit stays spent; nothing more is
          admitted.
        </>
      )}
      run={async (usd, tokens) => {
        const about = { tenant, period: book.period, ...(team ? { team } : {}) };
        const money: Body<"/api/v1/budgets"> = { ...about, ...(usd ? { limit_usd: usd } : {}) };
        const answer = await command.run({ body: money });
        if (answer === undefined || tokens === (book.max_tokens ?? undefined)) return answer;
        const limit = { ...about, in_tokens: true, ...(tokens === undefined ? {} : { max_tokens: tokens }) };
        return command.run({ body: limit as Body<"/api/v1/budgets"> });
      }}
    />
  );
}
