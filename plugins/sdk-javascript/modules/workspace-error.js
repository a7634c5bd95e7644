/** Why the host did not do what a capability of the workspace was asked for. */
export class WorkspaceError extends Error {
  constructor({ tag, val }) {
    super({ "not-found": `${val} does not exist`, denied: `${val} is outside the workspace or may not be used` }[tag] ?? val);
    this.name = "WorkspaceError";
    this.kind = tag;
  }
}

export const workspaceError = (payload) => new WorkspaceError(payload);
