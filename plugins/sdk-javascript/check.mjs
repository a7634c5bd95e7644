// What does a file export and import, and what is wrong with it?

import { GRANTS, POINTS } from "./shim.mjs";

/**
 * What of the checker's messages is told of JavaScript: syntax, names and modules that are not there, constants
 * that are set. The rest needs types that such a file does not have.
 */
const OF_JAVASCRIPT = new Set([2300, 2304, 2305, 2307, 2451, 2503, 2552, 2580, 2584, 2588, 2591, 2614, 2724]);

/** What a plugin has instead of what other places offer. */
const INSTEAD = {
  console: 'import { info } from "tandem/log"; info("…")',
  TextDecoder: 'import { toText } from "tandem"; toText(bytes)',
  TextEncoder: 'import { toBytes } from "tandem"; toBytes(text)',
  Buffer: 'import { toBytes, toText } from "tandem"',
  require: 'only `import … from "tandem"` and "tandem/GRANT"; put the rest into this file',
  process: "a plugin has no process; its settings are in \"tandem/settings\"",
  fetch: "a plugin has no network",
  setTimeout: "a plugin has no timers; it answers at once",
  setInterval: "a plugin has no timers; it answers at once",
  performance: 'import { nowMs } from "tandem/clock"',
  crypto: 'import { random } from "tandem/random"',
};

const modules = ["tandem", ...GRANTS.map((grant) => `tandem/${grant}`)];
const PARTS = "tandem.d.ts";
const SIGNATURES = "signatures.ts";

/**
 * Returns the `exports` and `grants` of the file in the order of the contract, its `diagnostics`, and `blanked`,
 * its text with imports of mere types taken out, every other character where it was.
 */
export function check(ts, { name, text, typings }) {
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.ES2023, true);
  const own = [];
  const say = (node, message, help) => own.push(diagnostic(source, node.getStart(source), { message, help }));

  const exported = exportsOf(ts, source, say);
  const program = programOf(ts, { name, source, typings, exported });
  const found = importsOf(ts, source, program.getTypeChecker(), say);
  const diagnostics = [...own, ...messages(ts, program, { name, source, exported })];
  diagnostics.sort((a, b) => a.line - b.line || a.column - b.column);
  if (diagnostics.length === 0 && exported.size === 0) {
    diagnostics.push({
      ...diagnostic(source, 0, {
        message: "the file exports no hook point and no tools",
        help: `export a function such as \`onToolCall\`; there are ${Object.keys(POINTS).join(", ")}`,
      }),
      snippet: null,
    });
  }
  return {
    exports: Object.keys(POINTS).filter((point) => exported.has(point)),
    grants: GRANTS.filter((grant) => found.used.has(`tandem/${grant}`)),
    diagnostics,
    blanked: blank(text, found.types),
  };
}

/** Each exported name with the node that says it. */
function exportsOf(ts, source, say) {
  const found = new Map();
  const add = (name, node) => {
    if (Object.hasOwn(POINTS, name)) found.set(name, node);
    else {
      const near = Object.keys(POINTS).find((point) => point.toLowerCase() === name.toLowerCase());
      const help = near ? `the contract spells it \`${near}\`` : `the contract has ${Object.keys(POINTS).join(", ")}; leave \`export\` out where nothing outside needs it`;
      say(node, `\`${name}\` is no export of the contract`, help);
    }
  };
  const named = (pattern) => {
    if (ts.isIdentifier(pattern)) add(pattern.text, pattern);
    else pattern.elements.forEach((element) => element.name && named(element.name));
  };
  for (const statement of source.statements) {
    const words = statement.modifiers?.map((word) => word.kind) ?? [];
    if (ts.isExportAssignment(statement) || words.includes(ts.SyntaxKind.DefaultKeyword)) {
      say(statement, "there is no default export in the contract", "export each point by its name: `export function onToolCall(context, call) { … }`");
    } else if (ts.isExportDeclaration(statement)) {
      if (statement.moduleSpecifier) say(statement, "what another module exports cannot be exported again", "export a function of this file");
      else if (!statement.isTypeOnly) statement.exportClause.elements.forEach((e) => e.isTypeOnly || add(e.name.text, e));
    } else if (words.includes(ts.SyntaxKind.ExportKeyword) && !words.includes(ts.SyntaxKind.DeclareKeyword)) {
      if (ts.isVariableStatement(statement)) statement.declarationList.declarations.forEach((d) => named(d.name));
      else if (statement.name && !ts.isInterfaceDeclaration(statement) && !ts.isTypeAliasDeclaration(statement)) add(statement.name.text, statement.name);
    }
  }
  return found;
}

/** The modules that the file uses values of, and the places of imports that are only types. */
function importsOf(ts, source, checker, say) {
  const used = new Set();
  const types = [];
  const isType = (specifier) => {
    let symbol = checker.getSymbolAtLocation(specifier.name);
    if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
    return specifier.isTypeOnly || (symbol !== undefined && (symbol.flags & ts.SymbolFlags.Value) === 0 && (symbol.flags & ts.SymbolFlags.Type) !== 0);
  };
  for (const statement of source.statements) {
    if (!ts.isImportDeclaration(statement)) continue;
    const module = statement.moduleSpecifier.text;
    const clause = statement.importClause;
    if (clause?.isTypeOnly) continue; // type syntax, which goes away anyway
    if (!modules.includes(module)) {
      say(statement.moduleSpecifier, `there is no module \`${module}\``, `a plugin imports ${modules.map((m) => `"${m}"`).join(", ")}, and is one file otherwise`);
      continue;
    }
    const named = clause?.namedBindings && ts.isNamedImports(clause.namedBindings) ? clause.namedBindings.elements : undefined;
    const only = named?.filter(isType) ?? [];
    if (named && only.length === named.length && !clause.name) types.push([statement.getStart(source), statement.end]);
    else {
      used.add(module);
      // Up to the next name, so that no comma is left over.
      only.forEach((e) => types.push([e.getStart(source), named[named.indexOf(e) + 1]?.getStart(source) ?? e.end]));
    }
  }
  walk(ts, source, (node) => {
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      say(node, "`import(…)` at run time is not possible in a plugin", 'write `import … from "tandem/GRANT"` at the head of the file');
    }
  });
  return { used, types };
}

function walk(ts, root, visit) {
  // No recursion: a hostile file nests as deep as it likes.
  const open = [root];
  while (open.length > 0) {
    const node = open.pop();
    visit(node);
    ts.forEachChild(node, (child) => void open.push(child));
  }
}

function blank(text, places) {
  let result = text;
  for (const [from, to] of places) {
    result = result.slice(0, from) + result.slice(from, to).replace(/[^\r\n]/g, " ") + result.slice(to);
  }
  return result;
}

/** The file with the typings, and for TypeScript a line for each export that asks for the contract's type. */
function programOf(ts, { name, source, typings, exported }) {
  const typed = name.endsWith(".ts");
  const files = new Map([[name, source]]);
  files.set(PARTS, ts.createSourceFile(PARTS, typings, ts.ScriptTarget.ES2023));
  if (typed) {
    const type = (point) => point[0].toUpperCase() + point.slice(1);
    const asked = [...exported.keys()].map((point) => `plugin.${point} satisfies import("tandem").${type(point)};`);
    const lines = ['import * as plugin from "./plugin";', ...asked].join("\n");
    files.set(SIGNATURES, ts.createSourceFile(SIGNATURES, lines, ts.ScriptTarget.ES2023, true));
  }
  const options = {
    noEmit: true,
    allowJs: true,
    checkJs: true,
    strict: typed,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    moduleDetection: ts.ModuleDetectionKind.Force,
    erasableSyntaxOnly: typed,
    lib: ["lib.es2023.d.ts"],
    types: [],
    skipLibCheck: true,
  };
  const real = ts.createCompilerHost(options);
  const library = (path) => path.includes("/typescript/lib/lib.");
  const host = {
    ...real,
    getCurrentDirectory: () => "/",
    getSourceFile: (path, version) => files.get(path.replace(/^\//, "")) ?? (library(path) ? real.getSourceFile(path, version) : undefined),
    fileExists: (path) => files.has(path.replace(/^\//, "")) || (library(path) && real.fileExists(path)),
    readFile: (path) => (library(path) ? real.readFile(path) : undefined),
    directoryExists: undefined,
    getDirectories: () => [],
    realpath: undefined,
  };
  return ts.createProgram({ rootNames: [...files.keys()].map((file) => `/${file}`), options, host });
}

function messages(ts, program, { name, source, exported }) {
  const typed = name.endsWith(".ts");
  const syntax = program.getSyntacticDiagnostics(program.getSourceFile(`/${name}`));
  if (syntax.length > 0) return syntax.map((d) => told(ts, source, d, d.start));
  const modules = source.statements.flatMap((statement) => statement.moduleSpecifier ?? []);
  // A module that is not there has a better message already.
  const ofModule = (d) => modules.some((module) => module.pos <= d.start && d.start < module.end);
  const found = program
    .getSemanticDiagnostics(program.getSourceFile(`/${name}`))
    .filter((d) => (typed || OF_JAVASCRIPT.has(d.code)) && !ofModule(d))
    .map((d) => told(ts, source, d, d.start));
  const signatures = typed ? program.getSemanticDiagnostics(program.getSourceFile(`/${SIGNATURES}`)) : [];
  const points = [...exported.values()];
  for (const d of signatures) {
    const { line } = d.file.getLineAndCharacterOfPosition(d.start);
    found.push(told(ts, source, d, points[line - 1]?.getStart(source) ?? 0));
  }
  return found;
}

function told(ts, source, d, start) {
  // The last lines of a long chain say what really differs.
  const [first, ...rest] = ts.flattenDiagnosticMessageText(d.messageText, "\n").split("\n").map((line) => line.trim());
  const name = /Cannot find name '([^']*)'/.exec(first)?.[1];
  let message = [first, ...rest.slice(-1)].join(" ");
  let help = INSTEAD[name];
  if (help) message = `a plugin has no \`${name}\``;
  if (d.code === 1294) {
    message = "the types of a plugin are only taken out, so enums, namespaces and parameter properties cannot be built";
    help = "use a union of texts, or a constant object";
  }
  return diagnostic(source, start, { code: `TS${d.code}`, message, help });
}

function diagnostic(source, start, { message, help, code }) {
  const { line, character } = source.getLineAndCharacterOfPosition(start);
  return {
    file: source.fileName.replace(/^\//, ""),
    line: line + 1,
    column: character + 1,
    level: "error",
    code: code ?? null,
    message,
    help: help ?? null,
    snippet: source.text.split("\n")[line] ?? null,
  };
}
