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

const isText = (value) => typeof value === "string";
const orNothing = (is) => (value) => value == null || is(value);

/** What a point may answer. Anything else would be a trap without a text behind this module. */
export const text = { words: "a text or nothing", is: orNothing(isText) };
export const index = { words: "a whole number or nothing", is: orNothing((value) => Number.isInteger(value) && value >= 0) };
export const flag = { words: "true or false", is: (value) => typeof value === "boolean" };
export const nothing = { words: "nothing", is: () => true };
export const schema = { words: "a JSON Schema", is: isText };
export const effect = (...tags) => ({
  words: `${tags.join(", ")} or nothing`,
  is: orNothing((value) => tags.includes(value.tag) && isText(value.val)),
});
export const toolList = {
  words: "objects with a name, a description and an inputSchema",
  is: (tools) => tools.every((tool) => isText(tool.name) && isText(tool.description) && isText(tool.inputSchema)),
};
export const toolOutput = {
  words: "a text, toolText(…) or toolError(…)",
  is: (value) =>
    typeof value?.isError === "boolean" &&
    orNothing(isText)(value.structured) &&
    Array.isArray(value.content) &&
    value.content.every(({ tag, val }) => (tag === "text" ? isText(val) : tag === "image" && isText(val.mediaType))),
};

/** An export: an exception becomes the text of the plugin fault, then the trap. */
export function hook(name, answers, run) {
  return (...values) => {
    called = true;
    try {
      const answer = run(...values);
      if (typeof answer?.then === "function") {
        throw new TypeError(`\`${name}\` returns a Promise; a plugin answers at once, without \`async\``);
      }
      if (!answers.is(answer)) throw new TypeError(`\`${name}\` returns ${shown(answer)}, not ${answers.words}`);
      return answers === nothing ? undefined : answer;
    } catch (error) {
      explain(describe(error));
      throw error;
    }
  };
}

function shown(value) {
  try {
    return JSON.stringify(value)?.slice(0, 100) ?? typeof value;
  } catch {
    return typeof value;
  }
}

/** The exception and the author's own lines that it came through. */
function describe(error) {
  if (!(error instanceof Error)) return `uncaught exception: ${String(error)}`;
  const own = (error.stack ?? "").split("\n").filter((line) => line.includes("(/plugin.")).slice(0, 10);
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
