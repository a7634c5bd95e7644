import * as raw from "tandem:harness/workspace-read@0.1.0";
import { capability } from "./internal.js";
import { toText } from "./index.js";
import { WorkspaceError, workspaceError } from "./workspace-error.js";

const wrapped = (run) => capability("workspace-read", run, workspaceError);

export { WorkspaceError };
export const read = wrapped(raw.read);
export const readText = (path) => toText(read(path));
export const list = wrapped(raw.list);
export const stat = wrapped(raw.stat);
export const search = wrapped(raw.search);
export const diff = wrapped(raw.diff);
export const untracked = wrapped(raw.untracked);
