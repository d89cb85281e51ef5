import { Approvals } from "@/pages/settings/Approvals";
import { Keys } from "@/pages/settings/Keys";
import { Page } from "@/parts/Page";
import { Tabs, useTab } from "@/parts/Tabs";
import "./Settings.css";

const TABS = {
  name: "of",
  tabs: [
    { value: "keys", title: "API keys" },
    { value: "approvals", title: "Standing approvals" },
  ],
} as const;

export default function Settings() {
  const tab = useTab(TABS);
  return (
    <Page title="Settings">
      <Tabs label="Settings" {...TABS} />
      {tab === "approvals" ? <Approvals /> : <Keys />}
    </Page>
  );
}
