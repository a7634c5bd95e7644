// A word at the first repetition of an episode; the end at the second.
// imports: state
import { get, set } from "tandem:harness/state@0.1.0";

export const onLoop = {
  onLoop(_context, repetition) {
    if (get("told")) return { tag: "stop", val: "it repeats itself a second time" };
    set("told", new Uint8Array([1])); // throws when the cap is passed
    const text = repetition === "no-action"
      ? "Talk less and run a command."
      : "This was tried already. Try something else.";
    return { tag: "note", val: text };
  },
};
