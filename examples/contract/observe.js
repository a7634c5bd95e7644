// Logs when each turn ended, in virtual time.
// imports: clock, log
import { nowMs } from "tandem:harness/clock@0.1.0";
import { log } from "tandem:harness/log@0.1.0";

export const observe = {
  observe(_context, name, _payload) {
    if (name === "turn") log("info", `a turn ended after ${nowMs()} ms`);
  },
};
