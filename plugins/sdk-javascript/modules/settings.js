import { get as raw } from "tandem:harness/settings@0.1.0";
import { capability } from "./internal.js";

const text = capability("settings", raw);
export const settings = () => JSON.parse(text());
