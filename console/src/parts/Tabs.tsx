import type { ReactNode } from "react";
import { Link } from "react-router";
import { useAddress } from "@/parts/address";

interface Props<T extends string> {
  label: string;
  /** Parameter of the address that holds the tab. */
  name: string;
  tabs: readonly { value: T; title: ReactNode }[];
}

/** The tab that the address names, or the first. */
export function useTab<T extends string>({ name, tabs }: Pick<Props<T>, "name" | "tabs">): T | undefined {
  const [value] = useAddress(name);
  return (tabs.find((each) => each.value === value) ?? tabs[0])?.value;
}

/** Tabs as links, which a reload and a copied address keep. Filters of another tab are left behind. */
export function Tabs<T extends string>(props: Props<T>) {
  const { label, name, tabs } = props;
  const now = useTab(props);
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map((each, index) => (
        <Link
          key={each.value}
          to={index === 0 ? "." : `?${new URLSearchParams({ [name]: each.value })}`}
          aria-current={each.value === now ? "page" : undefined}
        >
          {each.title}
        </Link>
      ))}
    </nav>
  );
}
