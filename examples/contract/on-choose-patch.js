// Hands in the work tree when what the policy submitted does not apply.

export const onChoosePatch = {
  onChoosePatch(_context, candidates) {
    if (candidates[0].applies) return undefined;
    const usable = candidates.findIndex((patch) => patch.applies && patch.bytes > 0n);
    return usable < 0 ? undefined : usable;
  },
};
