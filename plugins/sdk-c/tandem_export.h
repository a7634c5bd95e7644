// What does `TANDEM_EXPORT(point)` write? The function of the component for one point, with the
// flat parameters of the canonical ABI (component-model, CanonicalABI.md): at most 16 values, else
// a pointer to them; results of more than one value as a pointer.
#ifndef TANDEM_EXPORT_H
#define TANDEM_EXPORT_H

#ifdef __cplusplus
extern "C" {
#endif

/// Exports what the plugin defines for `point`, such as `TANDEM_EXPORT(on_submit);`.
#define TANDEM_EXPORT(point) TANDEM_EXPORT_##point static_assert(true, "")

#define TANDEM_RAW(interface, function) \
    __attribute__((export_name("tandem:harness/" interface "@0.1.0#" function)))

/// A context, flat, and its parts put together.
#define TANDEM_CONTEXT_FLAT \
    uint32_t turn, uint64_t turns, int32_t turns_has, uint64_t turns_limit, \
    uint64_t tokens, int32_t tokens_has, uint64_t tokens_limit, \
    uint64_t seconds, int32_t seconds_has, uint64_t seconds_limit
#define TANDEM_CONTEXT_WHOLE \
    const tandem_context context = { turn, { { turns, turns_has != 0, turns_limit }, \
        { tokens, tokens_has != 0, tokens_limit }, { seconds, seconds_has != 0, seconds_limit } } }
#define TANDEM_PATCH_FLAT \
    int32_t source, uint64_t bytes, const tandem_text *files, size_t files_size, int32_t applies
#define TANDEM_PATCH_WHOLE \
    const tandem_patch_candidate patch = \
        { (tandem_patch_source)source, bytes, { files, files_size }, applies != 0 }

/// Begins a call: frees what the last one used, unless the host did by passing arguments.
void tandem_begin(void);
/// Ends a call: its memory stays until the host has read the result.
const void *tandem_end(const void *result);
/// The result `option<T>` of what begins with its tag; NULL is none.
const void *tandem_end_option(const tandem_text *text);
const void *tandem_end_effect(const void *effect);
const void *tandem_end_index(const tandem_patch_candidate *chosen, const tandem_patch_candidate *first);
/// An effect: `kind` counts the cases of the point's variant from 0.
const void *tandem_effect(uint8_t kind, tandem_text text);
const void *tandem_end_copy(const void *value, size_t size);

#define TANDEM_EXPORT_tools \
    TANDEM_RAW("tools", "definitions") const void *tandem_raw_definitions(void) { \
        tandem_begin(); \
        const tandem_tool_definitions result = tandem_definitions(); \
        return tandem_end_copy(&result, sizeof result); \
    } \
    TANDEM_RAW("tools", "call") const void *tandem_raw_call( \
        TANDEM_CONTEXT_FLAT, const char *name, size_t name_size, const char *arguments, size_t arguments_size) { \
        TANDEM_CONTEXT_WHOLE; \
        tandem_begin(); \
        const tandem_text tool = { name, name_size }, with = { arguments, arguments_size }; \
        const tandem_tool_output result = tandem_call(&context, tool, with); \
        return tandem_end_copy(&result, sizeof result); \
    }

#define TANDEM_EXPORT_settings_schema \
    TANDEM_RAW("settings-schema", "settings-schema") const void *tandem_raw_settings_schema(void) { \
        tandem_begin(); \
        const tandem_text result = tandem_settings_schema(); \
        return tandem_end_copy(&result, sizeof result); \
    }

#define TANDEM_EXPORT_on_episode_start \
    TANDEM_RAW("on-episode-start", "on-episode-start") \
    const void *tandem_raw_on_episode_start(TANDEM_CONTEXT_FLAT, const char *text, size_t size) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        const tandem_text instruction = { text, size }; \
        return tandem_end_option(tandem_on_episode_start(&context, instruction)); \
    }

#define TANDEM_EXPORT_on_model_call \
    TANDEM_RAW("on-model-call", "on-model-call") \
    const void *tandem_raw_on_model_call(TANDEM_CONTEXT_FLAT) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        return tandem_end_effect(tandem_on_model_call(&context)); \
    }

#define TANDEM_EXPORT_on_format_error \
    TANDEM_RAW("on-format-error", "on-format-error") \
    const void *tandem_raw_on_format_error(TANDEM_CONTEXT_FLAT, int32_t error, const char *text, size_t size) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        const tandem_text output = { text, size }; \
        return tandem_end_option(tandem_on_format_error(&context, (tandem_format_error)error, output)); \
    }

#define TANDEM_EXPORT_on_tool_call \
    TANDEM_RAW("on-tool-call", "on-tool-call") \
    const void *tandem_raw_on_tool_call( \
        TANDEM_CONTEXT_FLAT, const char *id, size_t id_size, const char *name, size_t name_size, \
        const char *arguments, size_t arguments_size) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        const tandem_tool_call call = { { id, id_size }, { name, name_size }, { arguments, arguments_size } }; \
        return tandem_end_effect(tandem_on_tool_call(&context, &call)); \
    }

typedef struct {
    tandem_context context;
    tandem_tool_call call;
    tandem_tool_result outcome;
} tandem_on_tool_result_flat;

#define TANDEM_EXPORT_on_tool_result \
    TANDEM_RAW("on-tool-result", "on-tool-result") \
    const void *tandem_raw_on_tool_result(const tandem_on_tool_result_flat *flat) { \
        tandem_begin(); \
        return tandem_end_effect(tandem_on_tool_result(&flat->context, &flat->call, &flat->outcome)); \
    }

#define TANDEM_EXPORT_on_loop \
    TANDEM_RAW("on-loop", "on-loop") \
    const void *tandem_raw_on_loop(TANDEM_CONTEXT_FLAT, int32_t repetition) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        return tandem_end_effect(tandem_on_loop(&context, (tandem_repetition)repetition)); \
    }

typedef struct {
    tandem_context context;
    tandem_submission submission;
} tandem_on_submit_flat;

#define TANDEM_EXPORT_on_submit \
    TANDEM_RAW("on-submit", "on-submit") \
    const void *tandem_raw_on_submit(const tandem_on_submit_flat *flat) { \
        tandem_begin(); \
        return tandem_end_option(tandem_on_submit(&flat->context, &flat->submission)); \
    }

#define TANDEM_EXPORT_on_choose_patch \
    TANDEM_RAW("on-choose-patch", "on-choose-patch") \
    const void *tandem_raw_on_choose_patch( \
        TANDEM_CONTEXT_FLAT, const tandem_patch_candidate *items, size_t size) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        const tandem_patch_candidates candidates = { items, size }; \
        return tandem_end_index(tandem_on_choose_patch(&context, &candidates), items); \
    }

#define TANDEM_EXPORT_on_limit \
    TANDEM_RAW("on-limit", "on-limit") \
    int32_t tandem_raw_on_limit(TANDEM_CONTEXT_FLAT, int32_t limit, TANDEM_PATCH_FLAT) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        TANDEM_PATCH_WHOLE; \
        const bool hand_in = tandem_on_limit(&context, (tandem_limit)limit, &patch); \
        tandem_end(NULL); \
        return hand_in; \
    }

#define TANDEM_EXPORT_observe \
    TANDEM_RAW("observe", "observe") \
    void tandem_raw_observe( \
        TANDEM_CONTEXT_FLAT, const char *name, size_t name_size, const char *payload, size_t payload_size) { \
        tandem_begin(); \
        TANDEM_CONTEXT_WHOLE; \
        const tandem_text event = { name, name_size }, with = { payload, payload_size }; \
        tandem_observe(&context, event, with); \
        tandem_end(NULL); \
    }

#ifdef __cplusplus
}
#endif

#endif
