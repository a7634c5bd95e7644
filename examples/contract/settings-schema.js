// Says once how many turns are left; `turns_left` is from 1 to 20, or the harness is refused.
import { note } from "tandem";
import { settings } from "tandem/settings";

export const settingsSchema = {
  type: "object",
  properties: { turns_left: { type: "integer", minimum: 1, maximum: 20 } },
  additionalProperties: false,
};

export function onModelCall(context) {
  const sayAt = settings().turns_left ?? 5;
  const { used, limit } = context.budget.turns;
  if (limit === null || limit - used !== sayAt) return undefined;
  return note(`${sayAt} turns are left.`);
}
