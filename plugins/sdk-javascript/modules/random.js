import { nextU64 } from "tandem:harness/random@0.1.0";
import { capability } from "./internal.js";

const next = capability("random", nextU64);
// The upper 53 bits, so that 1 is never reached.
export const random = () => Math.floor(Number(next()) / 2048) % 2 ** 53 / 2 ** 53;
