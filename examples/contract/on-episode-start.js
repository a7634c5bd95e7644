// Names the files at the top of the workspace, so that the first command need not.
// imports: workspace-read
import { list } from "tandem:harness/workspace-read@0.1.0";

export const onEpisodeStart = {
  onEpisodeStart(_context, _instruction) {
    let entries;
    try {
      entries = list("");
    } catch {
      return undefined;
    }
    const names = entries.map((entry) => entry.path).filter((path) => !path.startsWith("."));
    return names.length ? `The repository has: ${names.join(", ")}` : undefined;
  },
};
