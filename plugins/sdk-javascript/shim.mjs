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

/** The module that componentize-qjs is given. */
export function entry(file, exports) {
  const parts = exports.map((name) => `export const ${name} = ${object(name)};\n`);
  return `import { callTool, definitions, given, hook, json } from "tandem/internal";
import { args } from "tandem";
import * as plugin from "./${file}";
${parts.join("")}`;
}

function object(name) {
  switch (name) {
    case "tools":
      return `{
  definitions: hook("tools", () => definitions(plugin.tools)),
  call: hook("tools", (context, name, text) => callTool(plugin.tools, context, name, args({ arguments: text }))),
}`;
    case "settingsSchema":
      return `{ settingsSchema: hook("settingsSchema", () => json(given(plugin.settingsSchema))) }`;
    case "onLimit":
      return `{ onLimit: hook("onLimit", (...values) => plugin.onLimit(...values) ?? false) }`;
    case "observe":
      return `{ observe: hook("observe", (...values) => { plugin.observe(...values); }) }`;
    default:
      return `{ ${name}: hook("${name}", (...values) => plugin.${name}(...values)) }`;
  }
}
