// Refuses editors that wait for a terminal, and reads with `cat` where a pager would wait.
import { command, refuse, rewrite } from "tandem";

export function onToolCall(_context, call) {
  const line = command(call);
  if (line === undefined) return undefined;
  const [program, ...rest] = line.split(" ");
  if (["vim", "nano"].includes(program)) {
    return refuse(`There is no terminal for ${program}. Use sed or a script.`);
  }
  if (["less", "more"].includes(program)) return rewrite({ command: `cat ${rest.join(" ")}` });
  return undefined;
}
