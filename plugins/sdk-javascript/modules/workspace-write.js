import { write as raw } from "tandem:harness/workspace-write@0.1.0";
import { capability } from "./internal.js";
import { toBytes } from "./index.js";
import { WorkspaceError, workspaceError } from "./workspace-error.js";

const wrapped = capability("workspace-write", raw, workspaceError);

export { WorkspaceError };
export const write = (path, content) => wrapped(path, typeof content === "string" ? toBytes(content) : content);
