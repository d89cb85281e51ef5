import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { pack } from "./pack.ts";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [react(), pack(at("./dist"))],
  resolve: {
    alias: {
      "@": at("./src"),
      // The scroll lock of Radix's dialogs writes a <style> element, which the policy forbids.
      "react-style-singleton": at("./src/design/adopted-style.ts"),
    },
  },
  build: {
    // An image inside a style sheet is a data: address, which the policy forbids.
    assetsInlineLimit: 0,
    license: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 800,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  // Where `npm run dev` finds an API: a `holdfast dev` of your own.
  server: { proxy: { "/api": process.env.HOLDFAST_URL ?? "http://127.0.0.1:8485" } },
  worker: { format: "es" },
});
