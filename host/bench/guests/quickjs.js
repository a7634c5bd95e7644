// The hook that is measured, for QuickJS. Numbers of 64 bits come as BigInt.
// exports: on-model-call, on-tool-call

export const onModelCall = {
  onModelCall(context) {
    const { used, limit } = context.budget.turns;
    if (limit === undefined) return undefined;
    const left = limit > used ? limit - used : 0n;
    return left <= 3n ? { tag: "note", val: `${left} of ${limit} turns are left.` } : undefined;
  },
};

export const onToolCall = {
  onToolCall(_context, call) {
    const deletes = call.arguments.includes("rm -rf /");
    return deletes ? { tag: "refuse", val: "Work in the repository." } : undefined;
  },
};
