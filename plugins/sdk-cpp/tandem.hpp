// How is a Tandem plugin written in C++ (C++23, without exceptions and RTTI)?
//
//     #include "tandem.hpp"
//
//     std::optional<tandem::ModelCallEffect> on_model_call(const tandem::Context &context) {
//         if (context.turn != 3) return std::nullopt;
//         return tandem::Note{"Run the tests."};
//     }
//     TANDEM_EXPORT(on_model_call);
//
// What is exported is what the plugin subscribes to: define the function of a point, listed under
// "Points", and name it in `TANDEM_EXPORT`. Same input must give same output. The functions under
// "Capabilities" are what it asks for: each is a grant.
//
// Memory: a `std::string_view` from here lives as long as the call. What must last goes through
// `tandem::state`; strings and containers are the plugin's own.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tandem.h"
#undef TANDEM_EXPORT

namespace tandem {

using std::optional;
using std::string;
using std::string_view;

// ---- Types of the contract. ----

/// How much of one resource an episode has used, and its limit if it has one.
struct Usage { std::uint64_t used; optional<std::uint64_t> limit; };
/// Seconds are virtual: they count turns and commands, not a wall clock.
struct Budget { Usage turns, tokens, seconds; };
/// Where in the episode a call happens. Turns count from 1.
struct Context { std::uint32_t turn; Budget budget; };

enum class ToolStatus : std::uint8_t { finished, failed, timed_out, refused };
enum class PatchSource : std::uint8_t { submitted, work_tree };
enum class FormatError : std::uint8_t { no_action, several_actions, unknown_tool, bad_arguments, cut_off };
/// The same call with the same result 4 times, the same error 3 times, two calls in turn 6 times,
/// output without an action 3 times.
enum class Repetition : std::uint8_t { same_call, same_error, alternating, no_action };
enum class Limit : std::uint8_t { turns, tokens, seconds, format_errors };

/// A tool call of the policy. `arguments` is a JSON object.
struct ToolCall {
    string_view id, name, arguments;
    /// The text argument under `key`.
    optional<string_view> text(const char *key) const;
    /// The command line of a call of `bash`; none of a call of another tool.
    optional<string_view> command() const;
};

/// What the policy is about to be shown of a tool call. `raw_bytes`: before the visible cap.
struct ToolResult {
    ToolStatus status;
    optional<std::int32_t> exit_code;
    string_view text;
    std::uint64_t raw_bytes;
};

/// The work tree against the commit that the episode started from.
struct WorkTree { std::vector<string_view> changed, untracked; };

/// One patch that the host could hand in.
struct PatchCandidate {
    PatchSource source;
    std::uint64_t bytes;
    std::vector<string_view> files;
    bool applies;
    bool is_empty() const { return bytes == 0; }
};

/// `deferrals`: how often this episode's submission was deferred already.
struct Submission { PatchCandidate patch; WorkTree work_tree; std::uint32_t deferrals; };

/// A tool: letters, digits, `_` and `-` in its name, at most 64; a JSON Schema of its arguments.
struct ToolDefinition { string name, description, input_schema; };
struct Image { string media_type; std::vector<std::uint8_t> data; };
/// The result of a tool: what the policy reads, and JSON if it has a structured answer.
struct ToolOutput {
    std::vector<std::variant<string, Image>> content;
    optional<string> structured;
    bool is_error = false;
    static ToolOutput text(string text) { return { { std::move(text) }, std::nullopt, false }; }
    /// A failure that the policy reads. Say what to do instead.
    static ToolOutput error(string text) { return { { std::move(text) }, std::nullopt, true }; }
};

// ---- Effects: what a point may answer. ----

/// Text at the end of the newest content that the policy has not seen.
struct Note { string text; };
/// Ends the episode, with a reason for the record.
struct Stop { string reason; };
/// Runs the call with these arguments, a JSON object, instead.
struct Rewrite { string arguments; };
/// Does not run the call; the policy reads the reason as its result.
struct Refuse { string reason; };
/// Text after the result.
struct Annotate { string text; };
/// Text instead of the result.
struct Replace { string text; };

using ModelCallEffect = std::variant<Note, Stop>;
using LoopEffect = std::variant<Note, Stop>;
using ToolCallEffect = std::variant<Rewrite, Refuse>;
using ToolResultEffect = std::variant<Annotate, Replace>;

// ---- JSON ----

/// A JSON value, or none: what is not there answers like what has another type.
class Json {
  public:
    /// None if the text is not JSON, or nested deeper than 64 levels.
    static Json parse(string_view text) { return Json(tandem_json_parse({ text.data(), text.size() })); }
    explicit Json(const tandem_json *value = nullptr) : value(value) {}

    explicit operator bool() const { return value != nullptr; }
    tandem_json_kind kind() const { return value ? value->kind : TANDEM_JSON_NULL; }
    /// The value under `key` of an object.
    Json operator[](const char *key) const { return Json(tandem_json_get(value, key)); }
    /// The elements of an array, or the values of an object.
    std::size_t size() const { return value ? value->size : 0; }
    Json operator[](std::size_t at) const { return Json(at < size() ? &value->items[at] : nullptr); }
    string_view key(std::size_t at) const {
        if (kind() != TANDEM_JSON_OBJECT || at >= size()) return {};
        return { value->keys[at].data, value->keys[at].size };
    }

    optional<string_view> text() const {
        tandem_text text;
        if (!tandem_json_text(value, &text)) return std::nullopt;
        return string_view(text.data, text.size);
    }
    optional<double> number() const {
        return kind() == TANDEM_JSON_NUMBER ? optional(value->number) : std::nullopt;
    }
    /// A whole number; 10.0 is one.
    optional<std::int64_t> whole() const {
        std::int64_t number;
        return tandem_json_whole(value, &number) ? optional(number) : std::nullopt;
    }
    bool is_true() const { return tandem_json_true(value); }

    /// The text as JSON, with its quotation marks.
    static string quote(string_view text) {
        const tandem_text quoted = tandem_json_quote({ text.data(), text.size() });
        return { quoted.data, quoted.size };
    }

  private:
    const tandem_json *value;
};

inline optional<string_view> ToolCall::text(const char *key) const { return Json::parse(arguments)[key].text(); }
inline optional<string_view> ToolCall::command() const { return name == "bash" ? text("command") : std::nullopt; }

// ---- Text. ----

/// The pieces between any of the bytes of `separators`, empty ones too.
inline std::vector<string_view> split(string_view text, string_view separators) {
    std::vector<string_view> pieces;
    for (std::size_t start = 0;;) {
        const std::size_t end = text.find_first_of(separators, start);
        pieces.push_back(text.substr(start, end - start));
        if (end == string_view::npos) return pieces;
        start = end + 1;
    }
}

/// The pieces that are not empty.
inline std::vector<string_view> words(string_view text, string_view separators = " \t\n\r") {
    std::vector<string_view> pieces = split(text, separators);
    std::erase(pieces, "");
    return pieces;
}

/// The lines; a line end at the end makes no further line.
inline std::vector<string_view> lines(string_view text) {
    std::vector<string_view> pieces = split(text, "\n");
    if (pieces.back().empty()) pieces.pop_back();
    return pieces;
}

/// Without the bytes of `drop` at both ends.
inline string_view trim(string_view text, string_view drop = " \t\n\r") {
    const std::size_t start = text.find_first_not_of(drop);
    return start == string_view::npos ? string_view() : text.substr(start, text.find_last_not_of(drop) - start + 1);
}

/// Whether the bytes are UTF-8.
inline bool is_utf8(string_view bytes) {
    tandem_text text;
    return tandem_utf8({ reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size() }, &text);
}

/// Ends the call with a fault that shows this text to the plugin's author. Needs no grant.
[[noreturn]] inline void fail(const string &text) { tandem_fail("%s", text.c_str()); }

// ---- Capabilities: each needs its grant in the harness manifest. ----

namespace detail {
inline tandem_text lower(string_view text) {
    char *copy = static_cast<char *>(tandem_alloc(text.size() + 1));
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    return { copy, text.size() };
}
inline string_view lift(tandem_text text) { return { text.data, text.size }; }
inline string_view lift(tandem_bytes bytes) { return { reinterpret_cast<const char *>(bytes.data), bytes.size }; }
inline std::vector<string_view> lift(tandem_texts texts) {
    std::vector<string_view> lifted;
    for (const tandem_text &text : std::span(texts.items, texts.size)) lifted.push_back(lift(text));
    return lifted;
}
} // namespace detail

/// Messages for the plugin's author. Grant: `log`.
namespace log {
inline void debug(const string &text) { tandem_log(TANDEM_DEBUG, "%s", text.c_str()); }
inline void info(const string &text) { tandem_log(TANDEM_INFO, "%s", text.c_str()); }
inline void warn(const string &text) { tandem_log(TANDEM_WARN, "%s", text.c_str()); }
} // namespace log

/// Virtual time: milliseconds since the episode started. Grant: `clock`.
inline std::uint64_t now_ms() { return tandem_now_ms(); }
/// Random bits, the same for the same episode and plugin. Grant: `random`.
inline std::uint64_t random() { return tandem_random(); }

/// What the plugin keeps during one episode. Grant: `state`.
namespace state {
inline optional<string_view> get(string_view key) {
    tandem_bytes value;
    if (!tandem_state_get(detail::lower(key), &value)) return std::nullopt;
    return detail::lift(value);
}
/// False when the host's cap would be passed.
inline bool set(string_view key, string_view value) {
    return tandem_state_set(detail::lower(key), tandem_bytes_of({ value.data(), value.size() }), nullptr);
}
/// A number; 0 if none is kept.
inline std::uint64_t number(string_view key) { return tandem_state_number(detail::lower(key)); }
inline void set_number(string_view key, std::uint64_t number) { tandem_state_set_number(detail::lower(key), number); }
} // namespace state

/// The plugin's settings in the harness manifest, an object. Grant: `settings`.
inline Json settings() { return Json(tandem_settings()); }

enum class WorkspaceErrorKind : std::uint8_t { not_found, denied, too_large, failed };
/// `text` is the path, or for the last two what went wrong.
struct WorkspaceError {
    WorkspaceErrorKind kind;
    string_view text;
    /// One sentence for a policy to read.
    string explain() const {
        const tandem_workspace_error error = { tandem_workspace_error_kind(kind), { text.data(), text.size() } };
        return string(detail::lift(tandem_explain(&error)));
    }
};

/// A value, or why there is none: `if (!result) return result.error().explain();`
template <typename T> class Result {
  public:
    Result(T value) : either(std::in_place_index<0>, std::move(value)) {}
    Result(WorkspaceError error) : either(std::in_place_index<1>, error) {}
    explicit operator bool() const { return either.index() == 0; }
    const T &operator*() const { return *std::get_if<0>(&either); }
    const T *operator->() const { return std::get_if<0>(&either); }
    const WorkspaceError &error() const { return *std::get_if<1>(&either); }

  private:
    std::variant<T, WorkspaceError> either;
};

namespace detail {
inline WorkspaceError lift(const tandem_workspace_error &error) {
    return { WorkspaceErrorKind(error.kind), lift(error.text) };
}
} // namespace detail

/// The files of the task. Paths are relative to the workspace. Grant: `workspace-read`, and
/// `workspace-write` for `write`.
namespace workspace {
struct Entry { string_view path; bool is_folder; std::uint64_t bytes; };
/// Lines count from 1.
struct SearchHit { string_view path; std::uint32_t line; string_view text; };

inline Result<string_view> read(string_view path) {
    tandem_bytes content;
    tandem_workspace_error error;
    if (!tandem_workspace_read(detail::lower(path), &content, &error)) return detail::lift(error);
    return detail::lift(content);
}
inline Result<std::vector<Entry>> list(string_view path) {
    tandem_entries entries;
    tandem_workspace_error error;
    if (!tandem_workspace_list(detail::lower(path), &entries, &error)) return detail::lift(error);
    std::vector<Entry> lifted;
    for (const tandem_entry &entry : std::span(entries.items, entries.size)) {
        lifted.push_back({ detail::lift(entry.path), entry.is_folder, entry.bytes });
    }
    return lifted;
}
inline Result<Entry> stat(string_view path) {
    tandem_entry entry;
    tandem_workspace_error error;
    if (!tandem_workspace_stat(detail::lower(path), &entry, &error)) return detail::lift(error);
    return Entry{ detail::lift(entry.path), entry.is_folder, entry.bytes };
}
/// Lines that contain `text`, in files whose name ends in `suffix`.
inline Result<std::vector<SearchHit>> search(string_view text, string_view suffix, std::uint32_t max_hits) {
    tandem_search_hits hits;
    tandem_workspace_error error;
    if (!tandem_workspace_search(detail::lower(text), detail::lower(suffix), max_hits, &hits, &error)) {
        return detail::lift(error);
    }
    std::vector<SearchHit> lifted;
    for (const tandem_search_hit &hit : std::span(hits.items, hits.size)) {
        lifted.push_back({ detail::lift(hit.path), hit.line, detail::lift(hit.text) });
    }
    return lifted;
}
/// The difference of the work tree to the start of the episode.
inline Result<string_view> diff() {
    tandem_bytes diff;
    tandem_workspace_error error;
    if (!tandem_workspace_diff(&diff, &error)) return detail::lift(error);
    return detail::lift(diff);
}
inline Result<std::vector<string_view>> untracked() {
    tandem_texts paths;
    tandem_workspace_error error;
    if (!tandem_workspace_untracked(&paths, &error)) return detail::lift(error);
    return detail::lift(paths);
}
/// Why it failed, or nothing.
inline optional<WorkspaceError> write(string_view path, string_view content) {
    tandem_workspace_error error;
    const tandem_bytes bytes = tandem_bytes_of({ content.data(), content.size() });
    if (tandem_workspace_write(detail::lower(path), bytes, &error)) return std::nullopt;
    return detail::lift(error);
}
} // namespace workspace

/// No exit code when it was stopped at its time limit. `text` is standard output and error.
struct ExecOutput { optional<std::int32_t> exit_code; string_view text; };
/// Runs a program in the workspace's sandbox. Grant: `exec`.
inline Result<ExecOutput> exec(const std::vector<string> &argv, std::uint32_t timeout_ms) {
    std::vector<tandem_text> lowered;
    for (const string &argument : argv) lowered.push_back({ argument.data(), argument.size() });
    tandem_exec_output output;
    tandem_workspace_error error;
    if (!tandem_exec({ lowered.data(), lowered.size() }, timeout_ms, &output, &error)) return detail::lift(error);
    return ExecOutput{ output.has_exit_code ? optional(output.exit_code) : std::nullopt, detail::lift(output.text) };
}

} // namespace tandem

// ---- Points: define the ones that the plugin subscribes to, and export each. ----

/// `tools` has two functions. The definitions are asked for at admission, twice: the answers must
/// be equal.
std::vector<tandem::ToolDefinition> definitions();
tandem::ToolOutput call(const tandem::Context &context, std::string_view name, std::string_view arguments);
/// JSON Schema of the settings. It accepts `{}`, or has `examples` whose first it accepts.
std::string settings_schema();
/// When the workspace is ready: text for the first prompt.
std::optional<std::string> on_episode_start(const tandem::Context &context, std::string_view instruction);
/// Before each model call.
std::optional<tandem::ModelCallEffect> on_model_call(const tandem::Context &context);
/// The output of the policy could not be parsed: text instead of the host's corrective text.
std::optional<std::string> on_format_error(
    const tandem::Context &context, tandem::FormatError error, std::string_view output);
/// Before each tool call.
std::optional<tandem::ToolCallEffect> on_tool_call(const tandem::Context &context, const tandem::ToolCall &call);
/// After each tool call, failures and time-outs too.
std::optional<tandem::ToolResultEffect> on_tool_result(
    const tandem::Context &context, const tandem::ToolCall &call, const tandem::ToolResult &outcome);
/// The host saw repetition.
std::optional<tandem::LoopEffect> on_loop(const tandem::Context &context, tandem::Repetition repetition);
/// The policy hands in: a text defers the submission, twice an episode at most.
std::optional<std::string> on_submit(const tandem::Context &context, const tandem::Submission &submission);
/// There is more than one patch: the index of the one to hand in; without one the first.
std::optional<std::uint32_t> on_choose_patch(
    const tandem::Context &context, const std::vector<tandem::PatchCandidate> &candidates);
/// A limit ended the episode with no submission: true hands in the difference of the work tree.
bool on_limit(const tandem::Context &context, tandem::Limit limit, const tandem::PatchCandidate &work_tree);
/// Everything else. `payload` is a JSON object whose keys depend on `name`.
void observe(const tandem::Context &context, std::string_view name, std::string_view payload);

#include "tandem_export.hpp"
