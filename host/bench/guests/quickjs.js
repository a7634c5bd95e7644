// The hook that is measured, for QuickJS.

export const onModelCall = {
  onModelCall(context) {
    const { used, limit } = context.budget.turns;
    if (limit === null) return undefined;
    const left = Math.max(limit - used, 0);
    return left <= 3 ? { tag: "note", val: `${left} of ${limit} turns are left.` } : undefined;
  },
};

export const onToolCall = {
  onToolCall(_context, call) {
    const deletes = call.arguments.includes("rm -rf /");
    return deletes ? { tag: "refuse", val: "Work in the repository." } : undefined;
  },
};
