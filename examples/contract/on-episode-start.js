// Names the files at the top of the workspace, so that the first command need not.
import { list } from "tandem/workspace-read";

export function onEpisodeStart(_context, _instruction) {
  let entries;
  try {
    entries = list("");
  } catch {
    return undefined;
  }
  const names = entries.map((entry) => entry.path).filter((path) => !path.startsWith("."));
  return names.length ? `The repository has: ${names.join(", ")}` : undefined;
}
