// How is a Tandem plugin written in C?
//
//     #include "tandem.h"
//
//     const tandem_model_call_effect *tandem_on_model_call(const tandem_context *context) {
//         return context->turn == 3 ? tandem_note("Run the tests.") : NULL;
//     }
//     TANDEM_EXPORT(on_model_call);
//
// What is exported is what the plugin subscribes to: each point has a function, declared below,
// and `TANDEM_EXPORT` with its name. NULL means that nothing happens. Same input must give same
// output. The functions under "Capabilities" are what it asks for: each is a grant.
//
// Memory: everything that this header hands out or takes belongs to the call and is freed when
// the next call begins. Free nothing, and keep no pointer from one call to the next; what must
// last goes through `tandem_state_set`. `malloc` and `free` are there for anything else.
//
// Texts are UTF-8. Every `tandem_text` from here ends with a NUL that its size does not count, so
// `text.data` is a C string, unless the text itself has a NUL.
#ifndef TANDEM_H
#define TANDEM_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { const char *data; size_t size; } tandem_text;
typedef struct { const uint8_t *data; size_t size; } tandem_bytes;
typedef struct { const tandem_text *items; size_t size; } tandem_texts;

/// The text of a string literal or array, such as `TANDEM_TEXT("bash")`.
#define TANDEM_TEXT(literal) ((tandem_text){(literal), sizeof(literal) - 1})

// ---- Types of the contract. Their layout is that of the canonical ABI. ----

/// How much of one resource an episode has used, and its limit if it has one.
typedef struct { uint64_t used; bool has_limit; uint64_t limit; } tandem_usage;
/// Seconds are virtual: they count turns and commands, not a wall clock.
typedef struct { tandem_usage turns, tokens, seconds; } tandem_budget;
/// Where in the episode a call happens. Turns count from 1.
typedef struct { uint32_t turn; tandem_budget budget; } tandem_context;

/// A tool call of the policy. `arguments` is a JSON object.
typedef struct { tandem_text id, name, arguments; } tandem_tool_call;

typedef enum : uint8_t { TANDEM_FINISHED, TANDEM_FAILED, TANDEM_TIMED_OUT, TANDEM_REFUSED } tandem_tool_status;

/// What the policy is about to be shown of a tool call.
typedef struct {
    tandem_tool_status status;
    alignas(4) bool has_exit_code;
    int32_t exit_code;
    tandem_text text;
    /// Bytes of output before the model-visible cap was applied.
    uint64_t raw_bytes;
} tandem_tool_result;

/// The work tree against the commit that the episode started from.
typedef struct { tandem_texts changed, untracked; } tandem_work_tree;

/// Handed in by the policy, or the difference of the work tree.
typedef enum : uint8_t { TANDEM_SUBMITTED, TANDEM_WORK_TREE } tandem_patch_source;

/// One patch that the host could hand in. `bytes` 0 is an empty patch.
typedef struct { tandem_patch_source source; uint64_t bytes; tandem_texts files; bool applies; } tandem_patch_candidate;
typedef struct { const tandem_patch_candidate *items; size_t size; } tandem_patch_candidates;

/// `deferrals`: how often this episode's submission was deferred already.
typedef struct { tandem_patch_candidate patch; tandem_work_tree work_tree; uint32_t deferrals; } tandem_submission;

typedef enum : uint8_t {
    TANDEM_NO_ACTION, TANDEM_SEVERAL_ACTIONS, TANDEM_UNKNOWN_TOOL, TANDEM_BAD_ARGUMENTS, TANDEM_CUT_OFF
} tandem_format_error;

/// The same call with the same result 4 times, the same error 3 times, two calls in turn 6 times,
/// output without an action 3 times.
typedef enum : uint8_t {
    TANDEM_SAME_CALL, TANDEM_SAME_ERROR, TANDEM_ALTERNATING, TANDEM_OUTPUT_WITHOUT_ACTION
} tandem_repetition;

typedef enum : uint8_t { TANDEM_TURNS, TANDEM_TOKENS, TANDEM_SECONDS, TANDEM_FORMAT_ERRORS } tandem_limit;

/// A tool: letters, digits, `_` and `-` in its name, at most 64; a JSON Schema of its arguments.
typedef struct { tandem_text name, description, input_schema; } tandem_tool_definition;
typedef struct { const tandem_tool_definition *items; size_t size; } tandem_tool_definitions;

typedef enum : uint8_t { TANDEM_CONTENT_TEXT, TANDEM_CONTENT_IMAGE } tandem_content_kind;
/// `text` of a text; `media_type` and `image` of an image.
typedef struct {
    tandem_content_kind kind;
    union {
        tandem_text text;
        struct { tandem_text media_type; tandem_bytes image; };
    };
} tandem_content;
/// The result of a tool: what the policy reads, and JSON if it has a structured answer.
typedef struct {
    struct { const tandem_content *items; size_t size; } content;
    alignas(4) bool has_structured;
    tandem_text structured;
    bool is_error;
} tandem_tool_output;

// ---- Effects: what a point may answer. NULL is no effect. ----

typedef struct tandem_model_call_effect tandem_model_call_effect;
typedef struct tandem_tool_call_effect tandem_tool_call_effect;
typedef struct tandem_tool_result_effect tandem_tool_result_effect;
typedef struct tandem_model_call_effect tandem_loop_effect;

#define TANDEM_PRINTF __attribute__((format(printf, 1, 2)))

/// A text for the policy; of `on_submit`: why the submission is deferred. All these take a format
/// as `printf` does, and arguments after it.
TANDEM_PRINTF const tandem_text *tandem_say(const char *format, ...);
/// Text at the end of the newest content that the policy has not seen.
TANDEM_PRINTF const tandem_model_call_effect *tandem_note(const char *format, ...);
/// Ends the episode, with a reason for the record.
TANDEM_PRINTF const tandem_model_call_effect *tandem_stop(const char *format, ...);
/// Runs the call with these arguments, a JSON object, instead.
TANDEM_PRINTF const tandem_tool_call_effect *tandem_rewrite(const char *format, ...);
/// Does not run the call; the policy reads the reason as its result.
TANDEM_PRINTF const tandem_tool_call_effect *tandem_refuse(const char *format, ...);
/// Text after the result.
TANDEM_PRINTF const tandem_tool_result_effect *tandem_annotate(const char *format, ...);
/// Text instead of the result.
TANDEM_PRINTF const tandem_tool_result_effect *tandem_replace(const char *format, ...);
/// A result of a tool: one text.
TANDEM_PRINTF tandem_tool_output tandem_answer(const char *format, ...);
/// A text as it is, and JSON beside it.
tandem_tool_output tandem_answer_with(tandem_text text, tandem_text structured);
/// A failure of a tool that the policy reads. Say what to do instead.
TANDEM_PRINTF tandem_tool_output tandem_error(const char *format, ...);

// ---- Points: define the ones that the plugin subscribes to. ----

/// `tools` has two functions. The definitions are asked for at admission, twice: the answers must
/// be equal.
tandem_tool_definitions tandem_definitions(void);
tandem_tool_output tandem_call(const tandem_context *context, tandem_text name, tandem_text arguments);
/// JSON Schema of the settings. It accepts `{}`, or has `examples` whose first it accepts.
tandem_text tandem_settings_schema(void);
/// When the workspace is ready: text for the first prompt.
const tandem_text *tandem_on_episode_start(const tandem_context *context, tandem_text instruction);
/// Before each model call.
const tandem_model_call_effect *tandem_on_model_call(const tandem_context *context);
/// The output of the policy could not be parsed: text instead of the host's corrective text.
const tandem_text *tandem_on_format_error(const tandem_context *context, tandem_format_error error, tandem_text output);
/// Before each tool call.
const tandem_tool_call_effect *tandem_on_tool_call(const tandem_context *context, const tandem_tool_call *call);
/// After each tool call, failures and time-outs too.
const tandem_tool_result_effect *tandem_on_tool_result(
    const tandem_context *context, const tandem_tool_call *call, const tandem_tool_result *outcome);
/// The host saw repetition.
const tandem_loop_effect *tandem_on_loop(const tandem_context *context, tandem_repetition repetition);
/// The policy hands in: a text defers the submission, twice an episode at most.
const tandem_text *tandem_on_submit(const tandem_context *context, const tandem_submission *submission);
/// There is more than one patch: a pointer to the one to hand in, or NULL for the first.
const tandem_patch_candidate *tandem_on_choose_patch(
    const tandem_context *context, const tandem_patch_candidates *candidates);
/// A limit ended the episode with no submission: true hands in the difference of the work tree.
bool tandem_on_limit(const tandem_context *context, tandem_limit limit, const tandem_patch_candidate *work_tree);
/// Everything else. `payload` is a JSON object whose keys depend on `name`.
void tandem_observe(const tandem_context *context, tandem_text name, tandem_text payload);

// ---- Capabilities: each needs its grant in the harness manifest. ----

typedef enum : uint8_t { TANDEM_DEBUG, TANDEM_INFO, TANDEM_WARN } tandem_level;
/// A message for the plugin's author. Grant: `log`.
__attribute__((format(printf, 2, 3))) void tandem_log(tandem_level level, const char *format, ...);
/// Virtual time: milliseconds since the episode started. Grant: `clock`.
uint64_t tandem_now_ms(void);
/// Random bits, the same for the same episode and plugin. Grant: `random`.
uint64_t tandem_random(void);

/// What the plugin keeps during one episode. False if nothing is kept. Grant: `state`.
bool tandem_state_get(tandem_text key, tandem_bytes *value);
/// False when the host's cap would be passed; `why`, which may be NULL, gets both numbers.
bool tandem_state_set(tandem_text key, tandem_bytes value, tandem_text *why);
/// A number; 0 if none is kept.
uint64_t tandem_state_number(tandem_text key);
void tandem_state_set_number(tandem_text key, uint64_t number);

typedef struct tandem_json tandem_json;
/// The plugin's settings in the harness manifest, an object. Grant: `settings`.
const tandem_json *tandem_settings(void);

typedef enum : uint8_t {
    TANDEM_NOT_FOUND, TANDEM_DENIED, TANDEM_TOO_LARGE, TANDEM_WORKSPACE_FAILED
} tandem_workspace_error_kind;
/// `text` is the path, or for the last two what went wrong.
typedef struct { tandem_workspace_error_kind kind; tandem_text text; } tandem_workspace_error;
/// One sentence for a policy to read.
tandem_text tandem_explain(const tandem_workspace_error *error);

typedef struct { tandem_text path; bool is_folder; uint64_t bytes; } tandem_entry;
typedef struct { const tandem_entry *items; size_t size; } tandem_entries;
/// Lines count from 1.
typedef struct { tandem_text path; uint32_t line; tandem_text text; } tandem_search_hit;
typedef struct { const tandem_search_hit *items; size_t size; } tandem_search_hits;

// Reading the files of the task. Paths are relative to the workspace. Each gives false and sets
// `error`, which may be NULL, when it fails. Grant: `workspace-read`.
bool tandem_workspace_read(tandem_text path, tandem_bytes *content, tandem_workspace_error *error);
bool tandem_workspace_list(tandem_text path, tandem_entries *entries, tandem_workspace_error *error);
bool tandem_workspace_stat(tandem_text path, tandem_entry *entry, tandem_workspace_error *error);
/// Lines that contain `text`, in files whose name ends in `suffix`.
bool tandem_workspace_search(
    tandem_text text, tandem_text suffix, uint32_t max_hits, tandem_search_hits *hits, tandem_workspace_error *error);
/// The difference of the work tree to the start of the episode.
bool tandem_workspace_diff(tandem_bytes *diff, tandem_workspace_error *error);
bool tandem_workspace_untracked(tandem_texts *paths, tandem_workspace_error *error);
/// Grant: `workspace-write`.
bool tandem_workspace_write(tandem_text path, tandem_bytes content, tandem_workspace_error *error);

/// No exit code when it was stopped at its time limit. `text` is standard output and error.
typedef struct { bool has_exit_code; int32_t exit_code; tandem_bytes text; } tandem_exec_output;
/// Runs a program in the workspace's sandbox. Grant: `exec`.
bool tandem_exec(tandem_texts argv, uint32_t timeout_ms, tandem_exec_output *output, tandem_workspace_error *error);

/// Ends the call with a fault that shows this text to the plugin's author. Needs no grant. A fault
/// is never a decision; the policy does not read it.
TANDEM_PRINTF __attribute__((noreturn)) void tandem_fail(const char *format, ...);

// ---- Text. Nothing here changes its input. ----

/// Bytes of the call's memory, at least one, set to 0 and aligned for any type.
void *tandem_alloc(size_t size);
/// Text of a C string, copied.
tandem_text tandem_copy(const char *text);
/// What `printf` would print.
TANDEM_PRINTF tandem_text tandem_format(const char *format, ...);
/// The bytes from `start` up to `end`, cut to what is there.
tandem_text tandem_slice(tandem_text text, size_t start, size_t end);
bool tandem_equals(tandem_text text, const char *other);
bool tandem_starts_with(tandem_text text, const char *start);
bool tandem_ends_with(tandem_text text, const char *end);
bool tandem_contains(tandem_text text, const char *part);
/// Where `part` begins, or `text.size` if it is not there.
size_t tandem_find(tandem_text text, const char *part);
/// Without the bytes of `drop` at both ends.
tandem_text tandem_trim(tandem_text text, const char *drop);
/// The pieces between any of the bytes of `separators`, empty ones too.
tandem_texts tandem_split(tandem_text text, const char *separators);
/// The pieces that are not empty.
tandem_texts tandem_words(tandem_text text, const char *separators);
/// The lines; a line end at the end makes no further line.
tandem_texts tandem_lines(tandem_text text);
/// All of them, `separator` between.
tandem_text tandem_join(tandem_texts texts, const char *separator);
/// False if the bytes are not UTF-8.
bool tandem_utf8(tandem_bytes bytes, tandem_text *text);
/// The bytes of a text.
tandem_bytes tandem_bytes_of(tandem_text text);
/// The command line of a call of `bash`; false of other tools and without one.
bool tandem_command(const tandem_tool_call *call, tandem_text *command);

// ---- JSON ----

typedef enum : uint8_t {
    TANDEM_JSON_NULL, TANDEM_JSON_BOOLEAN, TANDEM_JSON_NUMBER, TANDEM_JSON_TEXT, TANDEM_JSON_ARRAY, TANDEM_JSON_OBJECT
} tandem_json_kind;

/// `items` are the `size` elements of an array or values of an object, `keys` the object's keys.
struct tandem_json {
    tandem_json_kind kind;
    bool boolean;
    double number;
    tandem_text text;
    size_t size;
    const tandem_json *items;
    const tandem_text *keys;
};

/// Reads one value, 64 levels deep at most; NULL if the text is not JSON.
const tandem_json *tandem_json_parse(tandem_text text);
/// The value under `key`; NULL if there is none, also of NULL and of what is no object.
const tandem_json *tandem_json_get(const tandem_json *object, const char *key);
/// False of NULL and of what is no text.
bool tandem_json_text(const tandem_json *value, tandem_text *text);
/// False of NULL and of what is no whole number (10.0 is one).
bool tandem_json_whole(const tandem_json *value, int64_t *number);
/// True of the value `true` only.
bool tandem_json_true(const tandem_json *value);
/// The text as JSON, with its quotation marks. Use it in a format to build more.
tandem_text tandem_json_quote(tandem_text text);

#ifdef __cplusplus
}
#endif

#include "tandem_export.h"

#endif
