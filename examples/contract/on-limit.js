// After the last turn, hands in what is in the work tree if it is small.

export const onLimit = {
  onLimit(_context, limit, workTree) {
    return limit === "turns" && workTree.applies && workTree.bytes > 0n && workTree.files.length <= 5;
  },
};
