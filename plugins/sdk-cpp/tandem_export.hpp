// What does `TANDEM_EXPORT(point)` write in C++? The function of the C header, from the one of the
// plugin, and its export.
#pragma once

/// Exports what the plugin defines for `point`, such as `TANDEM_EXPORT(on_submit);`.
#define TANDEM_EXPORT(point) \
    extern "C" { TANDEM_CPP_##point TANDEM_EXPORT_##point } static_assert(true)

namespace tandem::detail {

inline Usage lift(const tandem_usage &usage) {
    return { usage.used, usage.has_limit ? optional(usage.limit) : std::nullopt };
}
inline Context lift(const tandem_context *context) {
    const tandem_budget &budget = context->budget;
    return { context->turn, { lift(budget.turns), lift(budget.tokens), lift(budget.seconds) } };
}
inline ToolCall lift(const tandem_tool_call *call) {
    return { lift(call->id), lift(call->name), lift(call->arguments) };
}
inline ToolResult lift(const tandem_tool_result *result) {
    const auto code = result->has_exit_code ? optional(result->exit_code) : std::nullopt;
    return { ToolStatus(result->status), code, lift(result->text), result->raw_bytes };
}
inline PatchCandidate lift(const tandem_patch_candidate *patch) {
    return { PatchSource(patch->source), patch->bytes, lift(patch->files), patch->applies };
}
inline Submission lift(const tandem_submission *submission) {
    const tandem_work_tree &tree = submission->work_tree;
    return { lift(&submission->patch), { lift(tree.changed), lift(tree.untracked) }, submission->deferrals };
}

/// Results outlive the strings of the plugin, so they are copied into the call's memory.
template <typename T> T *kept(std::size_t count = 1) { return static_cast<T *>(tandem_alloc(count * sizeof(T))); }

inline const tandem_text *lower(const optional<string> &text) {
    if (!text) return nullptr;
    tandem_text *lowered = kept<tandem_text>();
    *lowered = lower(string_view(*text));
    return lowered;
}

inline string_view text_of(const Note &note) { return note.text; }
inline string_view text_of(const Stop &stop) { return stop.reason; }
inline string_view text_of(const Rewrite &rewrite) { return rewrite.arguments; }
inline string_view text_of(const Refuse &refuse) { return refuse.reason; }
inline string_view text_of(const Annotate &annotate) { return annotate.text; }
inline string_view text_of(const Replace &replace) { return replace.text; }

/// The cases of a variant stand in the order of the contract.
template <typename Lowered, typename Effect> const Lowered *lower_effect(const optional<Effect> &effect) {
    if (!effect) return nullptr;
    const string_view text = std::visit([](const auto &chosen) { return text_of(chosen); }, *effect);
    return static_cast<const Lowered *>(tandem_effect(static_cast<std::uint8_t>(effect->index()), lower(text)));
}

inline tandem_tool_definitions lower(const std::vector<ToolDefinition> &definitions) {
    auto *lowered = kept<tandem_tool_definition>(definitions.size());
    for (std::size_t i = 0; i < definitions.size(); i++) {
        const ToolDefinition &tool = definitions[i];
        lowered[i] = { lower(string_view(tool.name)), lower(string_view(tool.description)),
            lower(string_view(tool.input_schema)) };
    }
    return { lowered, definitions.size() };
}

inline tandem_tool_output lower(const ToolOutput &output) {
    auto *content = kept<tandem_content>(output.content.size());
    for (std::size_t i = 0; i < output.content.size(); i++) {
        if (const string *text = std::get_if<string>(&output.content[i])) {
            content[i].kind = TANDEM_CONTENT_TEXT;
            content[i].text = lower(string_view(*text));
        } else {
            const Image &image = *std::get_if<Image>(&output.content[i]);
            const string_view data(reinterpret_cast<const char *>(image.data.data()), image.data.size());
            content[i].kind = TANDEM_CONTENT_IMAGE;
            content[i].media_type = lower(string_view(image.media_type));
            content[i].image = tandem_bytes_of(lower(data));
        }
    }
    tandem_tool_output lowered = {};
    lowered.content = { content, output.content.size() };
    lowered.has_structured = output.structured.has_value();
    if (output.structured) lowered.structured = lower(string_view(*output.structured));
    lowered.is_error = output.is_error;
    return lowered;
}

inline const tandem_patch_candidate *lower(optional<std::uint32_t> index, const tandem_patch_candidates *all) {
    return index ? all->items + *index : nullptr;
}

} // namespace tandem::detail

#define TANDEM_LIFT(value) tandem::detail::lift(value)
#define TANDEM_LOWER_EFFECT(type, effect) tandem::detail::lower_effect<type>(effect)
#define TANDEM_LOWER(...) tandem::detail::lower(__VA_ARGS__)

#define TANDEM_CPP_tools \
    tandem_tool_definitions tandem_definitions(void) { return TANDEM_LOWER(definitions()); } \
    tandem_tool_output tandem_call(const tandem_context *context, tandem_text name, tandem_text arguments) { \
        return TANDEM_LOWER(call(TANDEM_LIFT(context), TANDEM_LIFT(name), TANDEM_LIFT(arguments))); \
    }
#define TANDEM_CPP_settings_schema \
    tandem_text tandem_settings_schema(void) { return TANDEM_LOWER(std::string_view(settings_schema())); }
#define TANDEM_CPP_on_episode_start \
    const tandem_text *tandem_on_episode_start(const tandem_context *context, tandem_text instruction) { \
        return TANDEM_LOWER(on_episode_start(TANDEM_LIFT(context), TANDEM_LIFT(instruction))); \
    }
#define TANDEM_CPP_on_model_call \
    const tandem_model_call_effect *tandem_on_model_call(const tandem_context *context) { \
        return TANDEM_LOWER_EFFECT(tandem_model_call_effect, on_model_call(TANDEM_LIFT(context))); \
    }
#define TANDEM_CPP_on_format_error \
    const tandem_text *tandem_on_format_error( \
        const tandem_context *context, tandem_format_error error, tandem_text output) { \
        return TANDEM_LOWER( \
            on_format_error(TANDEM_LIFT(context), tandem::FormatError(error), TANDEM_LIFT(output))); \
    }
#define TANDEM_CPP_on_tool_call \
    const tandem_tool_call_effect *tandem_on_tool_call( \
        const tandem_context *context, const tandem_tool_call *call) { \
        return TANDEM_LOWER_EFFECT(tandem_tool_call_effect, on_tool_call(TANDEM_LIFT(context), TANDEM_LIFT(call))); \
    }
#define TANDEM_CPP_on_tool_result \
    const tandem_tool_result_effect *tandem_on_tool_result( \
        const tandem_context *context, const tandem_tool_call *call, const tandem_tool_result *outcome) { \
        return TANDEM_LOWER_EFFECT(tandem_tool_result_effect, on_tool_result(TANDEM_LIFT(context), TANDEM_LIFT(call), TANDEM_LIFT(outcome))); \
    }
#define TANDEM_CPP_on_loop \
    const tandem_loop_effect *tandem_on_loop(const tandem_context *context, tandem_repetition repetition) { \
        return TANDEM_LOWER_EFFECT(tandem_loop_effect, on_loop(TANDEM_LIFT(context), tandem::Repetition(repetition))); \
    }
#define TANDEM_CPP_on_submit \
    const tandem_text *tandem_on_submit(const tandem_context *context, const tandem_submission *submission) { \
        return TANDEM_LOWER(on_submit(TANDEM_LIFT(context), TANDEM_LIFT(submission))); \
    }
#define TANDEM_CPP_on_choose_patch \
    const tandem_patch_candidate *tandem_on_choose_patch( \
        const tandem_context *context, const tandem_patch_candidates *candidates) { \
        std::vector<tandem::PatchCandidate> all; \
        for (std::size_t i = 0; i < candidates->size; i++) all.push_back(TANDEM_LIFT(&candidates->items[i])); \
        return TANDEM_LOWER(on_choose_patch(TANDEM_LIFT(context), all), candidates); \
    }
#define TANDEM_CPP_on_limit \
    bool tandem_on_limit( \
        const tandem_context *context, tandem_limit limit, const tandem_patch_candidate *work_tree) { \
        return on_limit(TANDEM_LIFT(context), tandem::Limit(limit), TANDEM_LIFT(work_tree)); \
    }
#define TANDEM_CPP_observe \
    void tandem_observe(const tandem_context *context, tandem_text name, tandem_text payload) { \
        observe(TANDEM_LIFT(context), TANDEM_LIFT(name), TANDEM_LIFT(payload)); \
    }
