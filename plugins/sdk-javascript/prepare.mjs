// Makes once what every build needs beside the npm packages.
//
//   node prepare.mjs TOOLS OUT
//
// TOOLS has `node_modules`. OUT gets `runtime.wasm`, the QuickJS that goes into every component, and
// `typescript.cache`, which saves half of the time that Node needs to load the type checker.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { loadTypeScript } from "./typescript.mjs";

/** The runtime without component-model async inside componentize-qjs 0.4.5. */
const RUNTIME = { bytes: 1_497_910, sha256: "25703f010b80efb806f9c35daf9ee6524ad60320c9781b0bae4e234264f8dac5" };

/**
 * The places where that runtime asks for a random seed, the monotonic and the wall clock. What it would be
 * told at build time goes into the component's memory, so the same source would give other bytes each time.
 * Each call becomes two instructions of the same size; the shim takes the clocks away from plugins anyway.
 */
const PATCHES = [
  // local.get 0; call insecure-seed; local.get 0; i64.load        -> drop; nop
  { at: "20 00 10 03 20 00 29 03 00", becomes: "20 00 1a 01 20 00 29 03 00" },
  // call monotonic-clock.now; local.set 3                         -> i64.const 1
  { at: "10 19 21 03 20 00 41 00 36 02 0c", becomes: "42 01 21 03 20 00 41 00 36 02 0c" },
  // local.get 1; call wall-clock.now; local.get 0                 -> drop; nop
  { at: "20 01 10 1b 20 00 41 00 36 02 0c", becomes: "20 01 1a 01 20 00 41 00 36 02 0c" },
];

const [tools, out] = process.argv.slice(2);
writeFileSync(join(out, "runtime.wasm"), patched(findRuntime()));
const warm = loadTypeScript(tools, undefined);
warm.exercise();
writeFileSync(join(out, "typescript.cache"), warm.script.createCachedData());

/** Finds the runtime inside the native add-on, which carries it as it is. */
function findRuntime() {
  const scope = join(tools, "node_modules/@andreiltd");
  const [folder] = readdirSync(scope).filter((name) => name.startsWith("componentize-qjs-binding-"));
  const require = createRequire(join(scope, folder, "package.json"));
  const addon = readFileSync(require.resolve(join(scope, folder)));
  for (let at = addon.indexOf("\0asm"); at >= 0; at = addon.indexOf("\0asm", at + 1)) {
    const candidate = addon.subarray(at, at + RUNTIME.bytes);
    if (createHash("sha256").update(candidate).digest("hex") === RUNTIME.sha256) return Buffer.from(candidate);
  }
  throw new Error("the npm package componentize-qjs does not carry the runtime of version 0.4.5");
}

function patched(runtime) {
  for (const { at, becomes } of PATCHES) {
    const [from, to] = [at, becomes].map((hex) => Buffer.from(hex.replaceAll(" ", ""), "hex"));
    const place = runtime.indexOf(from);
    if (place < 0 || runtime.indexOf(from, place + 1) >= 0) throw new Error(`not one place has ${at}`);
    to.copy(runtime, place);
  }
  return runtime;
}
