import { parts } from "@/parts/amount";
import "./Money.css";

interface Props {
  /** As the API writes it. Null is shown as "none". */
  usd: string | null | undefined;
  /** In a column: `places` of its amounts, so that they align on the point. */
  places?: number;
  none?: string;
  /** With a plus where it is one: a difference. */
  sign?: boolean;
}

/** Dollars at full precision. */
export function Money({ usd, places, none = "–", sign = false }: Props) {
  if (usd === null || usd === undefined) return <span className="faint">{none}</span>;
  const { whole, fraction } = parts(usd);
  return (
    <span className="money" data-usd={usd}>
      {sign && !usd.startsWith("-") ? "+" : ""}
      {whole}
      <span className="money-fraction" style={places === undefined ? undefined : { minWidth: `${places}ch` }}>
        {fraction}
      </span>
    </span>
  );
}
