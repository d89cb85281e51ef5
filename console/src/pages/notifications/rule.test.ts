import { expect, test } from "vitest";
import { commandOf } from "@/pages/notifications/rule";

test("the command of a rule has each of its fields, quoted for a shell", () => {
  const rule = {
    name: "failures",
    occasions: ["run_failed", "budget"],
    channel: "ops",
    to: ["@asked"],
    workflows: ["order*"],
    labels: { env: "it's prod" },
    teams: ["night shift"],
    children: true,
    digest_s: 0,
    title: "{workflow}: {reason}",
    details: false,
    tenant: "acme",
  } as const;
  expect(commandOf({ ...rule, occasions: [...rule.occasions], to: [...rule.to] } as never)).toBe(
    "holdfast notifications set failures --on run_failed --on budget --channel ops --to @asked --workflow 'order*'" +
      " --run-label 'env=it'\\''s prod' --team 'night shift' --children --digest-s 0 --title '{workflow}: {reason}'" +
      " --tenant acme",
  );
  expect(commandOf({})).toBe("holdfast notifications set NAME");
});
