/** An answer without a form: text or JSON, empty only on purpose. */
import { read } from "@/api/exact";

export interface Answer {
  answer?: string | undefined;
  /** True if that is JSON, not text. */
  isJson?: boolean | undefined;
  /** True if a person has said that it is empty. */
  isEmpty?: boolean | undefined;
}

export type Judged = { isRight: true; data: unknown } | { isRight: false; wrong: string };

/** The data of an answer, or why it cannot be sent. An empty one is text without characters, or null as JSON. */
export function judged({ answer = "", isJson = false, isEmpty = false }: Answer): Judged {
  if (answer.trim() === "") {
    if (isEmpty) return { isRight: true, data: isJson ? null : answer };
    return { isRight: false, wrong: "Nothing is entered. Enter it, or check that it is empty." };
  }
  if (!isJson) return { isRight: true, data: answer };
  try {
    return { isRight: true, data: read(answer) };
  } catch {
    return { isRight: false, wrong: "This is not JSON." };
  }
}
