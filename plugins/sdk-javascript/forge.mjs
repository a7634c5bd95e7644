// Builds one JavaScript or TypeScript file into a component. Runs in the forge's sandbox.
//
//   node forge.mjs SDK TOOLS PREPARED SOURCE OUT
//
// SDK is this folder with the contract beside it as `harness.wit`; TOOLS has `node_modules`; PREPARED is what
// prepare.mjs made. SOURCE is `plugin.js` or `plugin.ts`. OUT gets `result.json`, and `plugin.wasm` unless the
// result has diagnostics. Nothing of the plugin runs in this process: it is read here, and its first run is
// inside the component's own QuickJS. An exit code other than 0 is a fault of the tools, said on standard error.

import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { check } from "./check.mjs";
import { entry, world } from "./shim.mjs";
import { loadTypeScript } from "./typescript.mjs";

const [sdk, tools, prepared, source, out] = process.argv.slice(2);
const name = basename(source);
const text = readFileSync(source, "utf8");

const { ts, path: tsPath } = loadTypeScript(tools, optional(join(prepared, "typescript.cache")));
const checked = examined();
if (checked.diagnostics.length === 0) {
  const failed = await build(checked);
  if (failed) checked.diagnostics.push(failed);
}
const { exports, grants, diagnostics } = checked;
writeFileSync(join(out, "result.json"), JSON.stringify({ exports, grants, diagnostics }));

function examined() {
  try {
    return check(ts, { name, text, typings: readFileSync(join(sdk, "tandem.d.ts"), "utf8") });
  } catch (error) {
    // The type checker reads what is nested by calling itself.
    if (!(error instanceof RangeError)) throw error;
    const said = { message: "the source is nested too deep", help: "simplify it", code: null, snippet: null };
    return { exports: [], grants: [], diagnostics: [{ file: "", line: 0, column: 0, level: "error", ...said }] };
  }
}

function optional(path) {
  return existsSync(path) ? readFileSync(path) : undefined;
}

/** Writes the component, or returns the diagnostic that says why there is none. */
async function build({ exports, grants, blanked }) {
  const work = "/tmp/build";
  const contract = readFileSync(join(sdk, "harness.wit"), "utf8");
  mkdirSync(join(work, "wit/deps/harness"), { recursive: true });
  copyFileSync(join(sdk, "harness.wit"), join(work, "wit/deps/harness/harness.wit"));
  writeFileSync(join(work, "wit/world.wit"), world(contract, exports, grants));

  const root = join(work, "root");
  cpSync(join(sdk, "modules"), join(root, "node_modules/tandem"), { recursive: true });
  writeFileSync(join(root, name), await erased(blanked));
  const jsSource = entry(name, exports);
  writeFileSync(join(root, "entry.js"), jsSource);

  const require = createRequire(join(tools, "package.json"));
  const { componentize } = require("componentize-qjs");
  try {
    const { component } = await componentize({
      witPath: join(work, "wit"),
      world: "plugin",
      jsSource,
      jsPath: join(root, "entry.js"),
      moduleRoot: root,
      stubWasi: true,
      runtimeBytes: readFileSync(join(prepared, "runtime.wasm")),
    });
    writeFileSync(join(out, "plugin.wasm"), component);
  } catch (error) {
    return loadFailure(String(error.message));
  }
}

/** The source as JavaScript, every line and column where it was. */
async function erased(text) {
  if (name.endsWith(".js")) return text;
  // It imports `typescript`, so it must be told which one.
  createRequire(tsPath).cache[tsPath] ??= { id: tsPath, filename: tsPath, loaded: true, exports: ts };
  const { blankSourceFile } = await import(pathToFileURL(join(tools, "node_modules/ts-blank-space/out/index.js")));
  return blankSourceFile(ts.createSourceFile(name, text, ts.ScriptTarget.ESNext, true, ts.ScriptKind.TS));
}

/** The first run of the file, at build time, ended with an exception. */
function loadFailure(message) {
  const trap = /wasm trap: (.*)/.exec(message)?.[1];
  const said = /JavaScript module evaluation: (?:Error: )?([^]*)/.exec(message)?.[1] ?? /JavaScript module: ([^]*)/.exec(message)?.[1];
  if (!trap && !said) throw new Error(message);
  const place = new RegExp(`/${name.replace(".", "\\.")}:(\\d+)(?::(\\d+))?`).exec(said ?? "");
  const [line, column] = [Number(place?.[1] ?? 0), Number(place?.[2] ?? 0)];
  return {
    file: place ? name : "",
    line,
    column,
    level: "error",
    code: null,
    message: `the file fails while it is loaded: ${trap ?? said.split("\n    at ")[0].trim()}`,
    help: "code outside of functions runs once, when the component is built; keep it to constants",
    snippet: line > 0 ? (text.split("\n")[line - 1] ?? null) : null,
  };
}
