// Advice after a command that was stopped.

export const onToolResult = {
  onToolResult(_context, _call, outcome) {
    if (outcome.status !== "timed-out") return undefined;
    return { tag: "annotate", val: "Run less of it: one test, or fewer lines." };
  },
};
