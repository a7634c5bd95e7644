// Types of the contract `tandem:harness@0.1.0` for plugins in JavaScript and TypeScript.
//
// A plugin is one file. What it exports is what it subscribes to, and it exports nothing else:
//
//   import { command, refuse } from "tandem";
//
//   export function onToolCall(context, call) {
//     if (command(call)?.includes("git push")) return refuse("There is nowhere to push to.");
//   }
//
// Each module `tandem/GRANT` is a capability, and importing it is what the plugin asks for. Nothing else
// can be imported; there is no console, no timer, no clock, no chance and no network, since the same input
// must give the same answer. An exception is a plugin fault, and its text names your file and line.
//
// How the contract's types look here: names in camel case; `u32`, `s32` and `u64` are `number` (exact up to
// 2^53); `option` is `T | null`, and what you return may be `undefined` too; an enumeration is a string; a
// variant is `{ tag, val }`; `list<u8>` is `Uint8Array`; a failed `result` is an exception.

declare module "tandem" {
  /** How much of one resource the episode has used, and its limit if it has one. */
  export interface Usage {
    used: number;
    limit: number | null;
  }

  /** Where in the episode a call happens. Turns count from 1; seconds are virtual. */
  export interface Context {
    turn: number;
    budget: { turns: Usage; tokens: Usage; seconds: Usage };
  }

  /** A tool call of the policy. `arguments` is a JSON object as text; see {@link args}. */
  export interface ToolCall {
    id: string;
    name: string;
    arguments: string;
  }

  /** How a tool call ended, for `bash` and for plugin tools alike. For `bash` see `exitCode` too. */
  export type ToolStatus = "finished" | "failed" | "timed-out" | "refused";

  /** What the policy is about to be shown of a tool call. */
  export interface ToolResult {
    status: ToolStatus;
    exitCode: number | null;
    text: string;
    /** Bytes of output before the model-visible cap was applied. */
    rawBytes: number;
  }

  /** The work tree against the commit that the episode started from. */
  export interface WorkTree {
    changed: string[];
    untracked: string[];
  }

  /** One patch that the host could hand in. */
  export interface PatchCandidate {
    source: "submitted" | "work-tree";
    /** Size of the patch; 0 is an empty patch. */
    bytes: number;
    files: string[];
    /** Whether it applies to the commit that the episode started from. */
    applies: boolean;
  }

  export interface Submission {
    patch: PatchCandidate;
    workTree: WorkTree;
    /** How often this episode's submission was deferred already; the host allows two. */
    deferrals: number;
  }

  export type FormatError = "no-action" | "several-actions" | "unknown-tool" | "bad-arguments" | "cut-off";
  /** The same call with the same result 4 times, the same error 3 times, two calls in turn 6 times, no action 3 times. */
  export type Repetition = "same-call" | "same-error" | "alternating" | "no-action";
  export type Limit = "turns" | "tokens" | "seconds" | "format-errors";

  export type Note = { tag: "note"; val: string };
  export type Stop = { tag: "stop"; val: string };
  export type Rewrite = { tag: "rewrite"; val: string };
  export type Refuse = { tag: "refuse"; val: string };
  export type Annotate = { tag: "annotate"; val: string };
  export type Replace = { tag: "replace"; val: string };
  type Maybe<T> = T | null | undefined | void;

  /** Text at the end of the newest content that the policy has not seen. */
  export function note(text: string): Note;
  /** Ends the episode, with a reason for the record. */
  export function stop(reason: string): Stop;
  /** Runs the call with these arguments instead: an object, or JSON. */
  export function rewrite(args: object | string): Rewrite;
  /** Does not run the call; the policy reads the reason as its result. */
  export function refuse(reason: string): Refuse;
  /** Text after the result. */
  export function annotate(text: string): Annotate;
  /** Text instead of the result. */
  export function replace(text: string): Replace;

  /** Called once, before the first model call. Text for the plugin's own section of the first prompt. */
  export type OnEpisodeStart = (context: Context, instruction: string) => Maybe<string>;
  /** Called before each model call. */
  export type OnModelCall = (context: Context) => Maybe<Note | Stop>;
  /** Called when the output of the policy could not be parsed. Text instead of the host's corrective text. */
  export type OnFormatError = (context: Context, error: FormatError, output: string) => Maybe<string>;
  /** Called before each tool call. */
  export type OnToolCall = (context: Context, call: ToolCall) => Maybe<Rewrite | Refuse>;
  /** Called after each tool call, failures and time-outs too. */
  export type OnToolResult = (context: Context, call: ToolCall, outcome: ToolResult) => Maybe<Annotate | Replace>;
  /** Called when the host saw repetition. */
  export type OnLoop = (context: Context, repetition: Repetition) => Maybe<Note | Stop>;
  /** Called when the policy hands in. A message defers the submission and is shown to the policy. */
  export type OnSubmit = (context: Context, submission: Submission) => Maybe<string>;
  /** Called when there are several patches. The index of the one to hand in; without it the first stands. */
  export type OnChoosePatch = (context: Context, candidates: PatchCandidate[]) => Maybe<number>;
  /** Called when a limit ended the episode with no submission. True hands in the work tree's difference. */
  export type OnLimit = (context: Context, limit: Limit, workTree: PatchCandidate) => boolean;
  /** Called for everything else; changes nothing. `payload` is a JSON object as text. */
  export type Observe = (context: Context, name: string, payload: string) => void;
  /** JSON Schema of the settings, an object at the top. It accepts `{}`, or has `examples`. */
  export type SettingsSchema = object | string | (() => object | string);

  /** A tool that the policy may call beside `bash`. */
  export interface Tool {
    /** Letters, digits, `_` and `-`, at most 64. */
    name: string;
    description: string;
    /** JSON Schema of the arguments, an object at the top. */
    inputSchema: object | string;
    /**
     * `args` is what the policy sent; an empty object where that is no JSON object. A text in place of an output
     * is `toolText` of it.
     */
    call(context: Context, args: Record<string, unknown>): ToolOutput | string;
  }

  export type Tools = Tool[];

  export interface ToolOutput {
    content: ({ tag: "text"; val: string } | { tag: "image"; val: { mediaType: string; data: Uint8Array } })[];
    /** JSON, if the tool has a structured answer. */
    structured?: string | null;
    isError: boolean;
  }

  /** A tool's answer of one text, and JSON for it if there is some. */
  export function toolText(text: string, structured?: unknown): ToolOutput;
  /** A tool's failure that the policy reads. Say what to do instead. */
  export function toolError(text: string): ToolOutput;

  /** The arguments of a call; an empty object where they are no JSON object. */
  export function args(call: ToolCall): Record<string, unknown>;
  /** The command line of a call of `bash`; undefined for a call of another tool. */
  export function command(call: ToolCall): string | undefined;

  /** The lines of a text; a line end at its end makes no further line. */
  export function lines(text: string): string[];
  /** UTF-8 as text; undefined where it is not UTF-8. */
  export function decodeUtf8(bytes: Uint8Array): string | undefined;
  /** UTF-8 as text; what is not UTF-8 becomes U+FFFD. */
  export function toText(bytes: Uint8Array): string;
  /** Text as UTF-8. */
  export function toBytes(text: string): Uint8Array;
}

/** Messages for the plugin's author, kept in the episode's record. */
declare module "tandem/log" {
  export function debug(message: unknown): void;
  export function info(message: unknown): void;
  export function warn(message: unknown): void;
}

/** Virtual time. */
declare module "tandem/clock" {
  /** Milliseconds since the episode started, as recorded. */
  export function nowMs(): number;
}

/** Chance, the same for the same episode and plugin. */
declare module "tandem/random" {
  /** At least 0, less than 1. */
  export function random(): number;
}

/** What a plugin keeps during one episode: any value that JSON can hold. */
declare module "tandem/state" {
  /** Undefined where nothing is kept under `key`. */
  export function get(key: string): any;
  /** Throws when the host's cap would be passed; the message has both numbers. */
  export function set(key: string, value: unknown): void;
}

/** The settings of the plugin in the harness manifest. */
declare module "tandem/settings" {
  export function settings(): Record<string, any>;
}

/** Reading the workspace. Paths are relative to it; links out of it are refused. All of it throws {@link WorkspaceError}. */
declare module "tandem/workspace-read" {
  export class WorkspaceError extends Error {
    kind: "not-found" | "denied" | "too-large" | "failed";
  }
  export interface Entry {
    path: string;
    isFolder: boolean;
    bytes: number;
  }
  export interface SearchHit {
    path: string;
    /** Counts from 1. */
    line: number;
    text: string;
  }
  export function read(path: string): Uint8Array;
  /** The file as text; what is not UTF-8 becomes U+FFFD. */
  export function readText(path: string): string;
  export function list(path: string): Entry[];
  export function stat(path: string): Entry;
  /** Lines that contain `text`, in files whose name ends in `suffix`. */
  export function search(text: string, suffix: string, maxHits: number): SearchHit[];
  /** The difference of the work tree to the start of the episode. */
  export function diff(): Uint8Array;
  export function untracked(): string[];
}

/** Writing the workspace. */
declare module "tandem/workspace-write" {
  export { WorkspaceError } from "tandem/workspace-read";
  /** A text is written as UTF-8. */
  export function write(path: string, content: string | Uint8Array): void;
}

/** Running a program in the workspace's sandbox. */
declare module "tandem/exec" {
  export { WorkspaceError } from "tandem/workspace-read";
  export interface Output {
    /** Undefined when it was stopped at its time limit. */
    exitCode: number | undefined;
    /** Standard output and error, cut head and tail at the host's cap. */
    text: string;
  }
  export function run(argv: string[], timeoutMs: number): Output;
}

// What QuickJS has beside the language.
declare function btoa(text: string): string;
declare function atob(text: string): string;
declare function queueMicrotask(run: () => void): void;
