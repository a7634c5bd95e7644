// What stands between a plugin and the host: one call at a time, and errors that say where they come from.

import { explain } from "tandem:harness/failure@0.1.0";
import { toolError, toolText } from "./index.js";

/** Set with the first call. Until then the file is being loaded, at build time, with no host behind it. */
let called = false;

/** A function of a capability, with the errors that the contract gives it as exceptions. */
export function capability(name, raw, toError = (payload) => new Error(payload)) {
  return (...values) => {
    if (!called) throw new Error(`\`${name}\` can be used only inside a hook or a tool, not while the file is loaded`);
    try {
      return raw(...values);
    } catch (error) {
      throw error.payload === undefined ? error : toError(error.payload);
    }
  };
}

/** An export: an exception becomes the text of the plugin fault, then the trap. */
export function hook(name, run) {
  return (...values) => {
    called = true;
    try {
      const answer = run(...values);
      if (typeof answer?.then === "function") throw new TypeError(`\`${name}\` returns a Promise; a plugin answers at once, without \`async\``);
      return answer;
    } catch (error) {
      explain(describe(error));
      throw error;
    }
  };
}

/** The exception and the author's own lines that it came through. */
function describe(error) {
  if (!(error instanceof Error)) return `uncaught exception: ${String(error)}`;
  const own = (error.stack ?? "").split("\n").filter((line) => line.includes("(/plugin."));
  return [`uncaught ${error.name}: ${error.message}`, ...own.map((line) => line.replace("(/plugin.", "(plugin."))].join("\n");
}

export const definitions = (tools) =>
  tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema: json(inputSchema) }));

export function callTool(tools, context, name, args) {
  const tool = tools.find((tool) => tool.name === name);
  if (tool === undefined) return toolError(`there is no tool ${name}`);
  const answer = tool.call(context, args);
  return typeof answer === "string" ? toolText(answer) : answer;
}

export const json = (value) => (typeof value === "string" ? value : JSON.stringify(value));

export const given = (value) => (typeof value === "function" ? value() : value);

// The same input must give the same answer: no clock and no chance beside the host's.
const none = (what, use) => () => {
  throw new Error(`a plugin has no ${what}; use \`${use}\``);
};
Math.random = none("Math.random", 'random() of "tandem/random"');
const OwnDate = globalThis.Date;
const noClock = none("clock of its own", 'nowMs() of "tandem/clock"');
globalThis.Date = new Proxy(OwnDate, {
  construct: (target, values) => (values.length === 0 ? noClock() : new target(...values)),
  apply: noClock,
  get: (target, key) => (key === "now" ? noClock : Reflect.get(target, key)),
});
OwnDate.prototype.constructor = globalThis.Date;
delete globalThis.performance;
