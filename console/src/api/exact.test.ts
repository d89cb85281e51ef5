import { expect, test } from "vitest";
import { mayLoseDigits, read } from "@/api/exact";

test.each(["12345678901234567890", '{"a":[0.1234567890123456789,1]}', "[1e400]", '{"a": -9007199254740993}'])(
  "%s may lose digits",
  (text) => expect(mayLoseDigits(text)).toBe(true),
);

test("numbers that lose nothing are read as the browser reads them", () => {
  for (const text of ["[1.5,2e10,123456789012345,-0.001]", '{"id":"01a2201a-3e12-7000-8000-123456789012"}']) {
    expect(mayLoseDigits(text)).toBe(false);
    expect(read(text)).toEqual(JSON.parse(text));
  }
});
