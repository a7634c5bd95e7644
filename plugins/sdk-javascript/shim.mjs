// What stands between the author's file and the contract: a world, and a module that exports its interfaces.

/** Exports of a plugin in JavaScript and the interface of the contract behind each. */
export const POINTS = {
  tools: "tools",
  settingsSchema: "settings-schema",
  onEpisodeStart: "on-episode-start",
  onModelCall: "on-model-call",
  onFormatError: "on-format-error",
  onToolCall: "on-tool-call",
  onToolResult: "on-tool-result",
  onLoop: "on-loop",
  onSubmit: "on-submit",
  onChoosePatch: "on-choose-patch",
  onLimit: "on-limit",
  observe: "observe",
};

/** Capabilities: each is a module `tandem/GRANT`. */
export const GRANTS = [
  "log",
  "clock",
  "random",
  "state",
  "settings",
  "workspace-read",
  "workspace-write",
  "exec",
];

/** The part of the contract that the plugin has. `failure` is how exceptions get out; it needs no grant. */
export function world(contract, exports, grants) {
  const version = /^package tandem:harness@(.*);$/m.exec(contract)[1];
  const item = (kind, name) => `  ${kind} tandem:harness/${name}@${version};\n`;
  const imports = ["failure", ...grants].map((grant) => item("import", grant));
  const points = exports.map((name) => item("export", POINTS[name]));
  return `package tandem:component;\n\nworld plugin {\n${[...imports, ...points].join("")}}\n`;
}

/** What each point may answer, as `modules/internal.js` has it. */
const ANSWERS = {
  onEpisodeStart: "text",
  onModelCall: 'effect("note", "stop")',
  onFormatError: "text",
  onToolCall: 'effect("rewrite", "refuse")',
  onToolResult: 'effect("annotate", "replace")',
  onLoop: 'effect("note", "stop")',
  onSubmit: "text",
  onChoosePatch: "index",
  onLimit: "flag",
  observe: "nothing",
};

/** The module that componentize-qjs is given. */
export function entry(file, exports) {
  const parts = exports.map((name) => `export const ${name} = ${object(name)};\n`);
  return `import * as tandem from "tandem/internal";
import { args } from "tandem";
import * as plugin from "./${file}";
const { effect, flag, hook, index, nothing, text } = tandem;
${parts.join("")}`;
}

function object(name) {
  if (name === "tools") {
    return `{
  definitions: hook("tools", tandem.toolList, () => tandem.definitions(plugin.tools)),
  call: hook("tools", tandem.toolOutput, (context, name, json) =>
    tandem.callTool(plugin.tools, context, name, args({ arguments: json }))),
}`;
  }
  if (name === "settingsSchema") {
    return `{
  settingsSchema: hook("settingsSchema", tandem.schema, () => tandem.json(tandem.given(plugin.settingsSchema))),
}`;
  }
  return `{ ${name}: hook("${name}", ${ANSWERS[name]}, (...values) => plugin.${name}(...values)) }`;
}
