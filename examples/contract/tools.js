// A tool `outline`: the definitions of a Python file, with their lines.
import { lines, toolError } from "tandem";
import { readText } from "tandem/workspace-read";

const outline = {
  name: "outline",
  description: "Lists the functions and classes of a Python file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  call(_context, { path }) {
    if (typeof path !== "string") return toolError("Give a `path`.");
    let text;
    try {
      text = readText(path);
    } catch {
      return toolError(`${path} cannot be read`);
    }
    const numbered = lines(text).map((line, at) => `${at + 1}: ${line}`);
    return numbered.filter((line) => /^\d+: (\s*def |class )/.test(line)).join("\n");
  },
};

export const tools = [outline];
