// Builds what is checked in: dist/ (the package soonbeon-client) and ../static/page.js (the waiting page).
//   node build.mjs          writes them
//   node build.mjs --check  fails where they are not what the sources say, or the client has grown too large
//   node build.mjs --test   type-checks, and runs the unit tests
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
process.chdir(here);
const mode = process.argv[2] ?? "";
const MAX_CLIENT = 4096; // bytes, compressed

rmSync(".out", { recursive: true, force: true });
mkdirSync(".out");
execFileSync("node_modules/.bin/tsc", ["-p", ".", "--outDir", ".out"], { stdio: "inherit" });

const common = { bundle: true, minify: true, charset: "utf8", target: "es2017", legalComments: "none", logLevel: "warning" };

if (mode === "--test") {
  const tests = readdirSync("test").filter((f) => f.endsWith(".test.ts")).map((f) => join("test", f));
  await build({ entryPoints: tests, bundle: true, platform: "node", format: "esm", outdir: ".out/test", outExtension: { ".js": ".mjs" }, sourcemap: "inline", logLevel: "warning" });
  const built = readdirSync(".out/test").map((f) => join(".out/test", f));
  try {
    execFileSync(process.execPath, ["--enable-source-maps", "--test", ...built], { stdio: "inherit" });
  } catch {
    process.exit(1);
  }
  process.exit(0);
}

await build({ ...common, entryPoints: ["src/soonbeon-client.ts"], format: "esm", outfile: ".out/soonbeon-client.js" });
await build({ ...common, entryPoints: ["src/page.ts"], format: "esm", outfile: ".out/page.js" });

const products = {
  "dist/soonbeon-client.js": ".out/soonbeon-client.js",
  "dist/soonbeon-client.d.ts": ".out/soonbeon-client.d.ts",
  "../static/page.js": ".out/page.js",
};
let wrong = false;
for (const [path, from] of Object.entries(products)) {
  const want = readFileSync(from);
  if (mode === "--check") {
    let have;
    try {
      have = readFileSync(path);
    } catch {
      have = Buffer.alloc(0);
    }
    if (!have.equals(want)) {
      console.error(`${join("services/page/client", path)} is not what the sources say: run \`npm run build\` there and commit`);
      wrong = true;
    }
  } else {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, want);
  }
}
const size = gzipSync(readFileSync(".out/soonbeon-client.js"), { level: 9 }).length;
console.log(`soonbeon-client: ${size} bytes compressed (at most ${MAX_CLIENT}); page.js: ${gzipSync(readFileSync(".out/page.js"), { level: 9 }).length}`);
if (size > MAX_CLIENT) {
  console.error("the client is too large");
  wrong = true;
}
process.exit(wrong ? 1 : 0);
