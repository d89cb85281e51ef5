/** After a build: each file also in the encodings that browsers accept, and a bound on what all of them weigh. */
import { appendFileSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const PACKED = /\.(js|css|html|svg)$/;
const SHIPPED = /\.(js|css|html|svg|woff2)$/;
const MOST_BYTES = 700_000;
const LICENSES = ".vite/license.md";
/** Vite lists modules; fonts come by style sheets. */
const FONTS = ["@fontsource-variable/inter", "@fontsource-variable/jetbrains-mono"];

export function pack(folder: string): Plugin {
  return {
    name: "holdfast-pack",
    apply: "build",
    closeBundle() {
      for (const name of FONTS) {
        const text = readFileSync(join(folder, "..", "node_modules", name, "LICENSE"), "utf8");
        appendFileSync(join(folder, LICENSES), `\n## ${name}\n\n${text}`);
      }
      let total = 0;
      for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
        const file = join(folder, name);
        if (!SHIPPED.test(name) || !statSync(file).isFile()) continue;
        const bytes = readFileSync(file);
        if (!PACKED.test(name)) {
          total += bytes.length;
          continue;
        }
        const gzip = gzipSync(bytes, { level: 9 });
        writeFileSync(`${file}.gz`, gzip);
        writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
        total += gzip.length;
      }
      const words = `${Math.round(total / 1000)} kB compressed, of at most ${MOST_BYTES / 1000}`;
      if (total > MOST_BYTES) this.error(`The console has become too large: ${words}.`);
      this.info(words);
    },
  };
}
