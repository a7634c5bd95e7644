// Says once how many turns are left; `turns_left` is from 1 to 20, or the harness is refused.
// exports: settings-schema, on-model-call
// imports: settings
import { get } from "tandem:harness/settings@0.1.0";

const SCHEMA = {
  type: "object",
  properties: { turns_left: { type: "integer", minimum: 1, maximum: 20 } },
  additionalProperties: false,
};

export const settingsSchema = {
  settingsSchema: () => JSON.stringify(SCHEMA),
};

export const onModelCall = {
  onModelCall(context) {
    const sayAt = JSON.parse(get()).turns_left ?? 5;
    const { used, limit } = context.budget.turns;
    const left = Number((limit ?? 0n) - used);
    return left === sayAt ? { tag: "note", val: `${left} turns are left.` } : undefined;
  },
};
