import { Dialog } from "@/parts/Dialog";
import type { Key } from "@/parts/keys";
import "./Palette.css";

/** The keys of the page that is open. */
export default function KeysList({ keys, onClose }: { keys: readonly Key[]; onClose: () => void }) {
  return (
    <Dialog isOpen onClose={onClose} title="Keys of this page" words="They sleep while you type and in dialogs.">
      {/* A long list scrolls, also by keys. */}
      <dl className="keys-list" tabIndex={0}>
        {keys.map((each) => (
          <div key={each.key} style={{ display: "contents" }}>
            <dt>
              {each.key.split(" ").map((part) => (
                <span key={part}>
                  <kbd>{part}</kbd>{" "}
                </span>
              ))}
            </dt>
            <dd>{each.words}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
