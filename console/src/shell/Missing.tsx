import { Link } from "react-router";
import { Page } from "@/parts/Page";

export default function Missing() {
  return (
    <Page title="Not found">
      <p className="muted">
        The console has no page at this address. Go to the <Link to="/runs">runs</Link>.
      </p>
    </Page>
  );
}

export { Missing };
