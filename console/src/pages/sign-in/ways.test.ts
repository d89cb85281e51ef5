import { expect, test } from "vitest";
import { nextPage, providerAddress } from "@/pages/sign-in/ways";

test("after sign-in one comes to a page of this console, never to another origin", () => {
  expect(nextPage("/inbox?mine=1")).toBe("/inbox?mine=1");
  for (const asked of [null, "", "https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]) {
    expect(nextPage(asked)).toBe("/runs");
  }
});

test("the provider is told the page to come back to", () => {
  const way = { way: "oidc" as const, title: "Example", address: "/api/v1/sign-in/oidc" };
  expect(providerAddress(way, "/runs?q=a b")).toBe("/api/v1/sign-in/oidc?next=%2Fruns%3Fq%3Da+b");
});
