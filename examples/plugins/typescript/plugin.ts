// Refuses `rm -r` of everything, names the failing tests, and adds a tool `head`.
//
// Exports: onToolCall, onToolResult, tools. Grant: workspace-read.

import { annotate, command, decodeUtf8, lines, refuse, toolError, toolText } from "tandem";
import type { OnToolCall, OnToolResult, Tool, ToolOutput, Tools } from "tandem";
import { read, WorkspaceError } from "tandem/workspace-read";

/** What nobody means to delete. */
const EVERYTHING = ["/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*"];

const isRm = (word?: string) => word === "rm" || word?.endsWith("/rm");
const isRecursive = (flag: string) => flag === "--recursive" || (!flag.startsWith("--") && /[rR]/.test(flag));

/** What a simple command, given as its words, would delete of {@link EVERYTHING}. */
function deletes(words: string[]): string | undefined {
  const [program, ...rest] = words[0] === "sudo" ? words.slice(1) : words;
  if (!isRm(program) || !rest.some((word) => word.startsWith("-") && isRecursive(word))) return undefined;
  return rest.find((word) => EVERYTHING.includes(word));
}

export const onToolCall: OnToolCall = (_context, call) => {
  for (const simple of command(call)?.split(/[;&|\n]/) ?? []) {
    const target = deletes(simple.split(/[ \t]/).filter((word) => word !== ""));
    if (target) return refuse(`\`rm -r\` of \`${target}\` would delete what the task needs; name the folder that you mean`);
  }
};

export const onToolResult: OnToolResult = (_context, call, { status, exitCode, text }) => {
  if (call.name !== "bash" || status !== "finished" || exitCode === null || exitCode === 0) return;
  const failing = text
    .split("\n")
    .filter((line) => line.startsWith("FAILED "))
    .map((line) => line.slice("FAILED ".length).split(" - ")[0]!.replace(/^[ \t\r]+|[ \t\r]+$/g, ""))
    .filter((name) => name !== "");
  if (failing.length === 0) return;
  if (failing.length === 1) return annotate(`1 test fails: ${failing[0]}`);
  return annotate(`${failing.length} tests fail; the first is ${failing[0]}`);
};

const HEAD: Tool = {
  name: "head",
  description: "Shows the first lines of a file, with their numbers.",
  inputSchema: {
    type: "object",
    properties: {
      path: { type: "string", description: "relative to the workspace" },
      lines: { type: "integer", minimum: 1, maximum: 200, description: "10 unless given" },
    },
    required: ["path"],
    additionalProperties: false,
  },
  call: (_context, args) => head(args),
};

function head({ path, lines: count = 10 }: Record<string, unknown>): ToolOutput {
  if (typeof path !== "string") return toolError("`path` is missing: name a file of the workspace");
  if (typeof count !== "number" || !Number.isInteger(count) || count < 1 || count > 200) {
    return toolError("`lines` must be a whole number from 1 to 200");
  }
  let bytes: Uint8Array;
  try {
    bytes = read(path);
  } catch (error) {
    const missing = error instanceof WorkspaceError && error.kind === "not-found";
    return toolError(missing ? `${path} does not exist` : `${path} cannot be read`);
  }
  const text = decodeUtf8(bytes);
  if (text === undefined) return toolError(`${path} is not UTF-8 text`);
  if (text === "") return toolText(`${path} is empty`);
  const shown = lines(text).slice(0, count);
  return toolText(shown.map((line, at) => `${at + 1}\t${line}`).join("\n"), { lines: shown.length });
}

export const tools: Tools = [HEAD];
