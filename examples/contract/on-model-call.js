// Says once how many turns are left. Setting: `turns_left`, default 5.
import { note } from "tandem";
import { settings } from "tandem/settings";

export function onModelCall(context) {
  const sayAt = settings().turns_left ?? 5;
  const { used, limit } = context.budget.turns;
  if (limit === null || limit - used !== sayAt) return undefined;
  return note(`${sayAt} turns are left. Hand in in time.`);
}
