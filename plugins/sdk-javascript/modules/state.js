import { get as rawGet, set as rawSet } from "tandem:harness/state@0.1.0";
import { capability } from "./internal.js";
import { toBytes, toText } from "./index.js";

const bytes = capability("state", rawGet);
const setBytes = capability("state", rawSet);

export function get(key) {
  const kept = bytes(key);
  return kept == null ? undefined : JSON.parse(toText(kept));
}

export const set = (key, value) => setBytes(key, toBytes(JSON.stringify(value ?? null)));
