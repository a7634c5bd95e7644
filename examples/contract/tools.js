// A tool `outline`: the definitions of a Python file, with their lines.
// imports: workspace-read
import { read } from "tandem:harness/workspace-read@0.1.0";

// QuickJS has no TextDecoder. Throws where the bytes are not UTF-8.
const decode = (bytes) =>
  decodeURIComponent(Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""));

const say = (text, isError) => ({ content: [{ tag: "text", val: text }], structured: undefined, isError });

export const tools = {
  definitions() {
    return [{
      name: "outline",
      description: "Lists the functions and classes of a Python file.",
      inputSchema: '{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}',
    }];
  },

  call(_context, _name, args) {
    const { path } = JSON.parse(args);
    if (typeof path !== "string") return say("Give a `path`.", true);
    let text;
    try {
      text = decode(read(path));
    } catch {
      return say(`${path} cannot be read`, true);
    }
    const lines = text.split("\n").map((line, at) => `${at + 1}: ${line}`);
    return say(lines.filter((line) => /^\d+: (\s*def |class )/.test(line)).join("\n"), false);
  },
};
