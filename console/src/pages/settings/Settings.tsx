import { Approvals } from "@/pages/settings/Approvals";
import { Keys } from "@/pages/settings/Keys";
import { Sessions } from "@/pages/settings/Sessions";
import { Page } from "@/parts/Page";
import { Tabs, useTab } from "@/parts/Tabs";
import "./Settings.css";

const TABS = {
  name: "of",
  tabs: [
    { value: "keys", title: "API keys" },
    { value: "approvals", title: "Standing approvals" },
    { value: "sessions", title: "Sessions" },
  ],
} as const;

export default function Settings() {
  const tab = useTab(TABS);
  return (
    <Page title="Settings">
      <Tabs label="Settings" {...TABS} />
      {tab === "keys" ? <Keys /> : tab === "approvals" ? <Approvals /> : <Sessions />}
    </Page>
  );
}
