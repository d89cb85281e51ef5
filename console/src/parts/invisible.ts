/** Finds characters that a reader does not see or that turn the order of others around. */
export interface Piece {
  text: string;
  /** `U+202E right-to-left override`, for a character that is not seen. */
  marked?: string;
}

// Format, control, private and unassigned characters, separators of lines, and letters that are drawn as nothing.
export const UNSEEN_CLASS =
  "[\\p{Cf}\\p{Cc}\\p{Co}\\p{Cn}\\p{Cs}\\p{Zl}\\p{Zp}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\uffa0\\u{e0100}-\\u{e01ef}]";
const UNSEEN = new RegExp(UNSEEN_CLASS, "u");
const PLAIN = new Set(["\n", "\t", "\r"]);
const JOINER = "\u200d";
const EMOJI = /\p{Extended_Pictographic}/u;

const NAMES: Record<number, string> = {
  0: "null",
  27: "escape",
  173: "soft hyphen",
  1564: "Arabic letter mark",
  8203: "zero width space",
  8204: "zero width non-joiner",
  8205: "zero width joiner",
  8206: "left-to-right mark",
  8207: "right-to-left mark",
  8234: "left-to-right embedding",
  8235: "right-to-left embedding",
  8236: "pop directional formatting",
  8237: "left-to-right override",
  8238: "right-to-left override",
  8288: "word joiner",
  8294: "left-to-right isolate",
  8295: "right-to-left isolate",
  8296: "first strong isolate",
  8297: "pop directional isolate",
  12644: "Hangul filler",
  65279: "byte order mark",
};

export function pieces(text: string): Piece[] {
  if (!UNSEEN.test(text)) return text ? [{ text }] : [];
  const found: Piece[] = [];
  let plain = "";
  const all = Array.from(text);
  all.forEach((each, index) => {
    const joins = each === JOINER && EMOJI.test(all[index - 1] ?? "") && EMOJI.test(all[index + 1] ?? "");
    const joinsStyled = each === JOINER && all[index - 1] === "\ufe0f" && EMOJI.test(all[index + 1] ?? "");
    if (PLAIN.has(each) || joins || joinsStyled || !UNSEEN.test(each)) {
      plain += each;
      return;
    }
    if (plain) found.push({ text: plain });
    plain = "";
    found.push({ text: each, marked: nameOf(each) });
  });
  if (plain) found.push({ text: plain });
  return found;
}

function nameOf(character: string): string {
  const point = character.codePointAt(0) ?? 0;
  const code = `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  const isTag = point >= 0xe0020 && point <= 0xe007e;
  const name = NAMES[point] ?? (isTag ? `tag ${String.fromCodePoint(point - 0xe0000)}` : undefined);
  return name ? `${code} ${name}` : code;
}
