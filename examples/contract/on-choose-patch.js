// Hands in the work tree when what the policy submitted does not apply.

export function onChoosePatch(_context, candidates) {
  if (candidates[0].applies) return undefined;
  const usable = candidates.findIndex((patch) => patch.applies && patch.bytes > 0);
  return usable < 0 ? undefined : usable;
}
