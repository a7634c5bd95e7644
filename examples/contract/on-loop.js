// A word at the first repetition of an episode; the end at the second.
import { note, stop } from "tandem";
import { get, set } from "tandem/state";

export function onLoop(_context, repetition) {
  if (get("told")) return stop("it repeats itself a second time");
  set("told", true); // throws when the cap is passed
  return note(
    repetition === "no-action"
      ? "Talk less and run a command."
      : "This was tried already. Try something else.",
  );
}
