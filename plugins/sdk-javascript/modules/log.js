import { log as raw } from "tandem:harness/log@0.1.0";
import { capability } from "./internal.js";

const log = capability("log", raw);
export const debug = (message) => log("debug", String(message));
export const info = (message) => log("info", String(message));
export const warn = (message) => log("warn", String(message));
