// Shorter corrective texts than the host's.

const TEXTS = {
  "no-action": "Answer with one command in a bash block.",
  "several-actions": "One command in each answer, please.",
};

export function onFormatError(_context, error, _output) {
  return TEXTS[error]; // undefined leaves the host's text
}
