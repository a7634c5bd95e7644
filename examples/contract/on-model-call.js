// Says once how many turns are left. Setting: `turns_left`, default 5.
// imports: settings
import { get } from "tandem:harness/settings@0.1.0";

export const onModelCall = {
  onModelCall(context) {
    const sayAt = JSON.parse(get()).turns_left ?? 5;
    const { used, limit } = context.budget.turns; // bigint, since they are u64
    if (limit === undefined || limit === null) return undefined;
    const left = Number(limit - used);
    return left === sayAt ? { tag: "note", val: `${left} turns are left. Hand in in time.` } : undefined;
  },
};
