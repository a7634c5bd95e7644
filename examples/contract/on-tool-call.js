// Refuses editors that wait for a terminal, and reads with `cat` where a pager would wait.

export const onToolCall = {
  onToolCall(_context, call) {
    const { command } = JSON.parse(call.arguments);
    if (typeof command !== "string") return undefined;
    const [program, ...rest] = command.split(" ");
    if (["vim", "nano"].includes(program)) {
      return { tag: "refuse", val: `There is no terminal for ${program}. Use sed or a script.` };
    }
    if (["less", "more"].includes(program)) {
      return { tag: "rewrite", val: JSON.stringify({ command: `cat ${rest.join(" ")}` }) };
    }
    return undefined;
  },
};
