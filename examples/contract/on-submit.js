// Holds a patch back once while new files are not part of it.

export function onSubmit(_context, submission) {
  const { files } = submission.patch;
  const leftOut = submission.workTree.untracked.filter((path) => !files.includes(path));
  if (leftOut.length === 0 || submission.deferrals > 0) return undefined;
  return `New files are not in the patch: ${leftOut.join(", ")}. Run \`git add -N .\` and hand in again.`;
}
