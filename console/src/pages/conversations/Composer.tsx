import { useId } from "react";
import { useMay } from "@/api/caller";
import { useCommand } from "@/api/queries";
import { unique } from "@/api/unique";
import { BUSY_WORDS, type OnBusy, type Whole } from "@/pages/conversations/words";
import { useDraft } from "@/parts/draft";
import { useMedia } from "@/parts/media";
import { State } from "@/parts/State";

interface Props {
  row: Whole;
  tenant: string | undefined;
  onSent: () => void;
}

interface Draft {
  text: string;
  /** The same on each try, so that a lost reply never makes two messages of one. */
  key: string;
}

/** Where one writes. While the agent is at work, a message steers the reply or waits. */
export function Composer({ row, tenant, onSent }: Props) {
  const [draft, setDraft] = useDraft<Draft>(`message.${row.tenant}/${row.name}`);
  const command = useCommand("/api/v1/conversations/{conversation}/messages", {
    touches: ["/api/v1/conversations/{name}", "/api/v1/conversations"],
    keyed: false,
  });
  const may = useMay("operator");
  const hasKeyboard = useMedia("(pointer: fine)");
  const id = useId();
  const text = draft?.text ?? "";
  const isBusy = row.active !== null || row.waiting.length > 0;
  const ways = isBusy ? waysOf(row.on_busy) : [row.on_busy];
  const send = async (onBusy: OnBusy) => {
    if (!draft || !text.trim() || command.isBusy || !may) return;
    try {
      const sent = await command.run({
        path: { conversation: row.name },
        body: { text, key: draft.key, on_busy: onBusy, ...(tenant ? { tenant } : {}) },
      });
      if (sent === undefined) return;
      setDraft(undefined);
      onSent();
    } catch {
      // The problem stands above the field; the draft stays.
    }
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send(ways[0] ?? row.on_busy);
      }}
    >
      <State problem={command.problem} />
      <label className="unseen" htmlFor={id}>
        Message
      </label>
      <textarea
        id={id}
        className="field"
        placeholder={may ? `Message to ${row.agent}` : "Writing requires the grant operator"}
        disabled={!may}
        rows={1}
        value={text}
        onChange={(event) => setDraft({ text: event.target.value, key: draft?.key ?? unique() })}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          if (!hasKeyboard && !event.ctrlKey) return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
      />
      <div className="composer-foot">
        <span className="faint composer-hint">
          {hasKeyboard ? (
            <>
              <kbd>Enter</kbd> {isBusy ? `${BUSY_WORDS[ways[0] ?? row.on_busy].verb.toLowerCase()}s` : "sends"},{" "}
              <kbd>Shift Enter</kbd> a new line
            </>
          ) : null}
        </span>
        {ways.map((each, index) => (
          <button
            key={each}
            type={index === 0 ? "submit" : "button"}
            className={index === 0 ? "btn primary" : "btn"}
            disabled={!may || command.isBusy || !text.trim()}
            title={isBusy ? `The message ${BUSY_WORDS[each].rule}` : undefined}
            onClick={index === 0 ? undefined : () => void send(each)}
          >
            {isBusy ? BUSY_WORDS[each].verb : "Send"}
          </button>
        ))}
      </div>
    </form>
  );
}

/** What a message may do while the agent is at work: the conversation's own way first. */
function waysOf(own: OnBusy): OnBusy[] {
  const usual: OnBusy[] = ["enqueue", "steer"];
  return own === "reject" ? ["enqueue", "steer"] : [own, ...usual.filter((each) => each !== own)];
}
