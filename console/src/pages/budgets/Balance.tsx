import { places, share } from "@/parts/amount";
import { Meter } from "@/parts/Meter";
import { Money } from "@/parts/Money";

interface Props {
  limit: string | null;
  settled: string;
  held: string;
  inDoubt: string;
  left: string | null;
}

/** Spent, held and in doubt together, under their limit: each as the API says it. */
export function Balance({ limit, settled, held, inDoubt, left }: Props) {
  const widest = places([settled, held, inDoubt, limit, left]);
  const lines = [
    ["Spent", settled, "text"],
    ["Held for calls in flight", held, "wait"],
    ["In doubt", inDoubt, "doubt"],
  ] as const;
  return (
    <>
      {limit === null ? null : (
        <Meter
          parts={lines.map(([, amount, tone]) => ({ share: share(amount, limit), tone }))}
          label={`$${settled} spent, $${held} held, $${inDoubt} in doubt of $${limit}`}
        />
      )}
      <dl className="balance">
        {lines.map(([name, amount, tone]) => (
          <div key={name}>
            <dt>
              <i className="balance-colour" data-tone={tone} /> {name}
            </dt>
            <dd>
              <Money usd={amount} places={widest} />
            </dd>
          </div>
        ))}
        <div>
          <dt>Limit</dt>
          <dd>
            <Money usd={limit} places={widest} none="none" />
          </dd>
        </div>
        {left === null ? null : (
          <div className="balance-left">
            <dt>Left</dt>
            <dd>
              <Money usd={left} places={widest} />
            </dd>
          </div>
        )}
      </dl>
    </>
  );
}
