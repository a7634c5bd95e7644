import { run as raw } from "tandem:harness/exec@0.1.0";
import { capability } from "./internal.js";
import { toText } from "./index.js";
import { WorkspaceError, workspaceError } from "./workspace-error.js";

const wrapped = capability("exec", raw, workspaceError);

export { WorkspaceError };
export function run(argv, timeoutMs) {
  const { exitCode, text } = wrapped(argv, timeoutMs);
  return { exitCode: exitCode ?? undefined, text: toText(text) };
}
