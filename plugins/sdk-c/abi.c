// How do values cross between plugin and host? The memory of a call, its results, and the imports.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tandem.h"

// The layout of the canonical ABI, which the structs of the header have.
static_assert(sizeof(tandem_context) == 80 && sizeof(tandem_tool_call) == 24, "");
static_assert(offsetof(tandem_tool_result, has_exit_code) == 4 && sizeof(tandem_tool_result) == 32, "");
static_assert(offsetof(tandem_on_tool_result_flat, outcome) == 104, "");
static_assert(sizeof(tandem_patch_candidate) == 32 && sizeof(tandem_submission) == 56, "");
static_assert(offsetof(tandem_submission, deferrals) == 48, "");
static_assert(offsetof(tandem_content, text) == 4 && sizeof(tandem_content) == 20, "");
static_assert(offsetof(tandem_tool_output, is_error) == 20 && sizeof(tandem_tool_output) == 24, "");
static_assert(sizeof(tandem_entry) == 24 && sizeof(tandem_search_hit) == 20, "");
static_assert(offsetof(tandem_workspace_error, text) == 4 && sizeof(tandem_exec_output) == 16, "");

// ---- The memory of a call: blocks, the newest first, freed all together. ----

typedef struct block {
    struct block *next;
    size_t size, used;
    size_t unused;
} block;

enum { BLOCK_BYTES = 64 << 10 };

static block *blocks;
static bool call_is_over;

static void free_last_call(void) {
    call_is_over = false;
    while (blocks != NULL) {
        block *next = blocks->next;
        // One block of the usual size stays, so that most calls need no other.
        if (next == NULL && blocks->size == BLOCK_BYTES) {
            blocks->used = 0;
            return;
        }
        free(blocks);
        blocks = next;
    }
}

static char *take(size_t size) {
    const size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size) tandem_fail("out of memory: %zu bytes asked for", size);
    if (blocks == NULL || blocks->size - blocks->used < rounded) {
        const size_t fresh_size = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
        block *fresh = malloc(sizeof(block) + fresh_size);
        if (fresh == NULL) tandem_fail("out of memory: %zu bytes asked for", size);
        *fresh = (block){ blocks, fresh_size, 0, 0 };
        blocks = fresh;
    }
    char *taken = (char *)(blocks + 1) + blocks->used;
    blocks->used += rounded;
    return taken;
}

void *tandem_alloc(size_t size) {
    return memset(take(size == 0 ? 1 : size), 0, size == 0 ? 1 : size);
}

/// How the host gets memory for arguments and for the results of imports. One byte more than it
/// asks for, so that every text ends with a NUL.
__attribute__((export_name("cabi_realloc")))
void *tandem_raw_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align; // 8 at most, and blocks are aligned to 16.
    if (call_is_over) free_last_call();
    if (size == SIZE_MAX) tandem_fail("out of memory: %zu bytes asked for", size);
    char *fresh = take(size + 1);
    if (old_size > 0) memcpy(fresh, old, old_size < size ? old_size : size);
    fresh[size] = 0;
    return fresh;
}

void tandem_begin(void) {
    if (call_is_over) free_last_call();
}

const void *tandem_end(const void *result) {
    call_is_over = true;
    return result;
}

const void *tandem_end_copy(const void *value, size_t size) {
    return tandem_end(memcpy(take(size), value, size));
}

typedef struct { bool is_some; tandem_text text; } optional_text;

const void *tandem_end_option(const tandem_text *text) {
    optional_text result = { text != NULL, { NULL, 0 } };
    if (text != NULL) result.text = *text;
    return tandem_end_copy(&result, sizeof result);
}

/// Every effect is an option of a variant of texts; 1 is its first case.
typedef struct { bool is_some; alignas(4) uint8_t kind; tandem_text text; } effect;

const void *tandem_end_effect(const void *chosen) {
    const effect none = { 0 };
    return tandem_end_copy(chosen != NULL ? chosen : &none, sizeof none);
}

const void *tandem_end_index(const tandem_patch_candidate *chosen, const tandem_patch_candidate *first) {
    const struct { bool is_some; uint32_t index; } result
        = { chosen != NULL, chosen != NULL ? (uint32_t)(chosen - first) : 0 };
    return tandem_end_copy(&result, sizeof result);
}

// ---- Texts of effects and of tools. ----

static tandem_text print(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (size < 0) tandem_fail("`%s` cannot be printed: it has a wide character, or is too long", format);
    char *text = take((size_t)size + 1);
    vsnprintf(text, (size_t)size + 1, format, arguments);
    return (tandem_text){ text, (size_t)size };
}

#define PRINTED(name) \
    va_list arguments; \
    va_start(arguments, format); \
    const tandem_text name = print(format, arguments); \
    va_end(arguments)

tandem_text tandem_format(const char *format, ...) {
    PRINTED(text);
    return text;
}

const tandem_text *tandem_say(const char *format, ...) {
    PRINTED(text);
    return memcpy(take(sizeof text), &text, sizeof text);
}

const void *tandem_effect(uint8_t kind, tandem_text text) {
    const effect result = { true, kind, text };
    return memcpy(take(sizeof result), &result, sizeof result);
}

#define EFFECT(type, name, kind) \
    const type *name(const char *format, ...) { \
        PRINTED(text); \
        return tandem_effect(kind, text); \
    }
EFFECT(tandem_model_call_effect, tandem_note, 0)
EFFECT(tandem_model_call_effect, tandem_stop, 1)
EFFECT(tandem_tool_call_effect, tandem_rewrite, 0)
EFFECT(tandem_tool_call_effect, tandem_refuse, 1)
EFFECT(tandem_tool_result_effect, tandem_annotate, 0)
EFFECT(tandem_tool_result_effect, tandem_replace, 1)

static tandem_tool_output output_of(tandem_text text, bool is_error) {
    tandem_content *content = tandem_alloc(sizeof *content);
    content->kind = TANDEM_CONTENT_TEXT;
    content->text = text;
    return (tandem_tool_output){ { content, 1 }, false, { NULL, 0 }, is_error };
}

tandem_tool_output tandem_answer(const char *format, ...) {
    PRINTED(text);
    return output_of(text, false);
}

tandem_tool_output tandem_answer_with(tandem_text text, tandem_text structured) {
    tandem_tool_output output = output_of(text, false);
    output.has_structured = true;
    output.structured = structured;
    return output;
}

tandem_tool_output tandem_error(const char *format, ...) {
    PRINTED(text);
    return output_of(text, true);
}

// ---- Faults. ----

#define IMPORT(interface, function) \
    __attribute__((import_module("tandem:harness/" interface "@0.1.0"), import_name(function)))

IMPORT("failure", "explain") void import_explain(const char *text, size_t size);

/// Without the call's memory: there may be none left.
void tandem_fail(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    import_explain(text, size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
    __builtin_trap();
}

/// What `assert` calls.
__attribute__((noreturn)) void __assert_fail(const char *claim, const char *file, int line, const char *function) {
    tandem_fail("%s:%d: %s: `%s` does not hold", file, line, function, claim);
}

__attribute__((noreturn)) void abort(void) {
    tandem_fail("the plugin called abort()");
}

// ---- Capabilities. ----

IMPORT("log", "log") void import_log(int32_t level, const char *text, size_t size);
IMPORT("clock", "now-ms") uint64_t import_now_ms(void);
IMPORT("random", "next-u64") uint64_t import_next_u64(void);

void tandem_log(tandem_level level, const char *format, ...) {
    PRINTED(text);
    import_log(level, text.data, text.size);
}

uint64_t tandem_now_ms(void) {
    return import_now_ms();
}

uint64_t tandem_random(void) {
    return import_next_u64();
}

typedef struct { bool is_some; tandem_bytes value; } optional_bytes;
typedef struct { bool is_error; tandem_text why; } result_set;
IMPORT("state", "get") void import_state_get(const char *key, size_t key_size, optional_bytes *result);
IMPORT("state", "set") void import_state_set(
    const char *key, size_t key_size, const uint8_t *value, size_t size, result_set *result);
IMPORT("settings", "get") void import_settings_get(tandem_text *result);

bool tandem_state_get(tandem_text key, tandem_bytes *value) {
    optional_bytes result;
    import_state_get(key.data, key.size, &result);
    if (result.is_some) *value = result.value;
    return result.is_some;
}

bool tandem_state_set(tandem_text key, tandem_bytes value, tandem_text *why) {
    result_set result;
    import_state_set(key.data, key.size, value.data, value.size, &result);
    if (result.is_error && why != NULL) *why = result.why;
    return !result.is_error;
}

uint64_t tandem_state_number(tandem_text key) {
    tandem_bytes value;
    return tandem_state_get(key, &value) ? strtoull((const char *)value.data, NULL, 10) : 0;
}

void tandem_state_set_number(tandem_text key, uint64_t number) {
    const tandem_text text = tandem_format("%llu", (unsigned long long)number);
    tandem_state_set(key, tandem_bytes_of(text), NULL);
}

const tandem_json *tandem_settings(void) {
    tandem_text text;
    import_settings_get(&text);
    return tandem_json_parse(text);
}

#define RESULT(type, member) \
    typedef struct { bool is_error; union { type ok; tandem_workspace_error error; }; } member##_result
RESULT(tandem_bytes, bytes);
RESULT(tandem_texts, texts);
RESULT(tandem_entries, entries);
RESULT(tandem_entry, entry);
RESULT(tandem_search_hits, hits);
RESULT(tandem_exec_output, exec);
typedef struct { bool is_error; tandem_workspace_error error; } nothing_result;

#define READ(function) IMPORT("workspace-read", function)
READ("read") void import_read(const char *path, size_t size, bytes_result *result);
READ("list") void import_list(const char *path, size_t size, entries_result *result);
READ("stat") void import_stat(const char *path, size_t size, entry_result *result);
READ("search") void import_search(
    const char *text, size_t size, const char *suffix, size_t suffix_size, uint32_t max_hits, hits_result *result);
READ("diff") void import_diff(bytes_result *result);
READ("untracked") void import_untracked(texts_result *result);
IMPORT("workspace-write", "write") void import_write(
    const char *path, size_t size, const uint8_t *content, size_t content_size, nothing_result *result);
IMPORT("exec", "run") void import_run(
    const tandem_text *argv, size_t size, uint32_t timeout_ms, exec_result *result);

/// Calls an import that gives a result, and hands out one side of it.
#define CALL(type, import, ...) \
    type result; \
    import(__VA_ARGS__ __VA_OPT__(,) &result); \
    if (result.is_error && error != NULL) *error = result.error; \
    if (!result.is_error) *out = result.ok; \
    return !result.is_error

bool tandem_workspace_read(tandem_text path, tandem_bytes *out, tandem_workspace_error *error) {
    CALL(bytes_result, import_read, path.data, path.size);
}

bool tandem_workspace_list(tandem_text path, tandem_entries *out, tandem_workspace_error *error) {
    CALL(entries_result, import_list, path.data, path.size);
}

bool tandem_workspace_stat(tandem_text path, tandem_entry *out, tandem_workspace_error *error) {
    CALL(entry_result, import_stat, path.data, path.size);
}

bool tandem_workspace_search(
    tandem_text text, tandem_text suffix, uint32_t max_hits, tandem_search_hits *out, tandem_workspace_error *error) {
    CALL(hits_result, import_search, text.data, text.size, suffix.data, suffix.size, max_hits);
}

bool tandem_workspace_diff(tandem_bytes *out, tandem_workspace_error *error) {
    CALL(bytes_result, import_diff);
}

bool tandem_workspace_untracked(tandem_texts *out, tandem_workspace_error *error) {
    CALL(texts_result, import_untracked);
}

bool tandem_exec(tandem_texts argv, uint32_t timeout_ms, tandem_exec_output *out, tandem_workspace_error *error) {
    CALL(exec_result, import_run, argv.items, argv.size, timeout_ms);
}

bool tandem_workspace_write(tandem_text path, tandem_bytes content, tandem_workspace_error *error) {
    nothing_result result;
    import_write(path.data, path.size, content.data, content.size, &result);
    if (result.is_error && error != NULL) *error = result.error;
    return !result.is_error;
}

tandem_text tandem_explain(const tandem_workspace_error *error) {
    switch (error->kind) {
    case TANDEM_NOT_FOUND: return tandem_format("%s does not exist", error->text.data);
    case TANDEM_DENIED: return tandem_format("%s is outside the workspace or may not be used", error->text.data);
    default: return error->text;
    }
}
