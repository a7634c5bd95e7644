// Loads the type checker, from compiled code if there is some.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import vm from "node:vm";

/**
 * `cache` is what `script.createCachedData()` once gave. V8 itself refuses it where it was made by
 * another version, and then all is as without it.
 */
export function loadTypeScript(tools, cache) {
  const path = join(tools, "node_modules/typescript/lib/typescript.js");
  const text = readFileSync(path, "utf8");
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${text}\n})`;
  const script = new vm.Script(wrapped, { filename: path, cachedData: cache });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(path), module, path, dirname(path));
  const ts = module.exports;
  return { ts, script, path, exercise: () => exercise(ts) };
}

/** Runs what a build runs, so that V8 keeps the compiled functions. */
function exercise(ts) {
  const host = ts.createCompilerHost({});
  const source = 'export function f(a: { b?: string }) { const [x] = ["y"]; return `${a.b ?? x}`.length + z; }\n';
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, version) =>
    name === "a.ts" ? ts.createSourceFile(name, source, version, true) : read(name, version);
  const program = ts.createProgram({
    rootNames: ["a.ts"],
    options: { noEmit: true, strict: true, lib: ["lib.es2023.d.ts"], types: [] },
    host,
  });
  ts.getPreEmitDiagnostics(program).forEach((d) => ts.flattenDiagnosticMessageText(d.messageText, "\n"));
}
