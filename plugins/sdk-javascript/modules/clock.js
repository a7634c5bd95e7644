import { nowMs as raw } from "tandem:harness/clock@0.1.0";
import { capability } from "./internal.js";

export const nowMs = capability("clock", raw);
