import { Agents } from "@/pages/budgets/Agents";
import { Owner } from "@/pages/budgets/Owner";
import { Page } from "@/parts/Page";
import { Tabs, useTab } from "@/parts/Tabs";
import "./Budgets.css";

const TABS = {
  name: "of",
  tabs: [
    { value: "tenant", title: "Tenants and teams" },
    { value: "agents", title: "Shared by agents" },
  ],
} as const;

export default function Budgets() {
  return (
    <Page title="Budgets">
      <Tabs label="Budgets" {...TABS} />
      {useTab(TABS) === "agents" ? <Agents /> : <Owner />}
    </Page>
  );
}
