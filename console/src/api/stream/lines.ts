/** Server-sent events from pieces of text as they arrive (HTML Standard, 9.2.6). Comments are heartbeats. */
export interface Message {
  event: string;
  data: string;
  id: string | null;
}

export class Lines {
  private rest = "";
  private event = "";
  private data: string[] = [];
  private id: string | null = null;

  /** Take a piece, and return the messages that it completes. */
  take(piece: string): Message[] {
    const found: Message[] = [];
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0)
          found.push({ event: this.event || "message", data: this.data.join("\n"), id: this.id });
        this.event = "";
        this.data = [];
        continue;
      }
      const at = line.indexOf(":");
      if (at === 0) continue;
      const name = at === -1 ? line : line.slice(0, at);
      const value = at === -1 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (name === "data") this.data.push(value);
      else if (name === "event") this.event = value;
      else if (name === "id" && !value.includes("\0")) this.id = value;
    }
    return found;
  }
}
