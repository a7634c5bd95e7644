// Logs when each turn ended, in virtual time.
import { nowMs } from "tandem/clock";
import { info } from "tandem/log";

export function observe(_context, name, _payload) {
  if (name === "turn") info(`a turn ended after ${nowMs()} ms`);
}
