import { expect, test } from "vitest";
import { judged } from "@/parts/answer";

test("an answer is empty only if a person has said so", () => {
  expect(judged({})).toMatchObject({ isRight: false });
  expect(judged({ answer: " \n" })).toMatchObject({ isRight: false });
  expect(judged({ isJson: true })).toMatchObject({ isRight: false });
  expect(judged({ isEmpty: true })).toEqual({ isRight: true, data: "" });
  expect(judged({ isEmpty: true, isJson: true })).toEqual({ isRight: true, data: null });
});

test("an answer is text, or JSON that can be read", () => {
  expect(judged({ answer: "12" })).toEqual({ isRight: true, data: "12" });
  expect(judged({ answer: "12", isJson: true })).toEqual({ isRight: true, data: 12 });
  expect(judged({ answer: "{", isJson: true })).toEqual({ isRight: false, wrong: "This is not JSON." });
  expect(judged({ answer: "words", isEmpty: true })).toEqual({ isRight: true, data: "words" });
});
