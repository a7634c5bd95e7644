// What `tandem` gives a plugin: answers, arguments, text. Typed and described in tandem.d.ts.

const answer = (tag) => (val) => ({ tag, val });

export const note = answer("note");
export const stop = answer("stop");
export const refuse = answer("refuse");
export const annotate = answer("annotate");
export const replace = answer("replace");
export const rewrite = (args) => ({ tag: "rewrite", val: typeof args === "string" ? args : JSON.stringify(args) });

export const toolText = (text, structured) => ({
  content: [{ tag: "text", val: text }],
  structured: structured === undefined ? null : JSON.stringify(structured),
  isError: false,
});
export const toolError = (text) => ({ ...toolText(text), isError: true });

export function args(call) {
  let value;
  try {
    value = JSON.parse(call.arguments);
  } catch {
    return {};
  }
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

export function command(call) {
  const line = call.name === "bash" ? args(call).command : undefined;
  return typeof line === "string" ? line : undefined;
}

export function lines(text) {
  const all = text.split("\n");
  if (all.at(-1) === "") all.pop();
  return all;
}

// `escape` and `decodeURIComponent` are native code; a loop over bytes in JavaScript costs ten times
// the fuel.
const CHUNK = 8192;

function latin1(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode.apply(null, bytes.subarray(at, at + CHUNK));
  }
  return text;
}

export function decodeUtf8(bytes) {
  const text = latin1(bytes);
  if (!/[\x80-\xff]/.test(text)) return text;
  try {
    return decodeURIComponent(escape(text));
  } catch {
    return undefined;
  }
}

export function toText(bytes) {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  // Well-formed characters (RFC 3629), or one byte that is none.
  const unit =
    /[\0-\x7f]+|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|[^]/g;
  return latin1(bytes).replace(unit, (part) =>
    part.length === 1 && part > "\x7f" ? "\ufffd" : decodeURIComponent(escape(part)),
  );
}

export function toBytes(text) {
  const encoded = unescape(encodeURIComponent(text.toWellFormed()));
  const bytes = new Uint8Array(encoded.length);
  for (let at = 0; at < encoded.length; at++) bytes[at] = encoded.charCodeAt(at);
  return bytes;
}
