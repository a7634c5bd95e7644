// Advice after a command that was stopped.
import { annotate } from "tandem";

export function onToolResult(_context, _call, outcome) {
  if (outcome.status === "timed-out") return annotate("Run less of it: one test, or fewer lines.");
}
