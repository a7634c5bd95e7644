// After the last turn, hands in what is in the work tree if it is small.

export function onLimit(_context, limit, workTree) {
  return limit === "turns" && workTree.applies && workTree.bytes > 0 && workTree.files.length <= 5;
}
