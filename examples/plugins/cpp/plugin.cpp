// Refuses `rm -r` of everything, names failing tests, and gives the tool `head`.
//
// Exports: `on-tool-call`, `on-tool-result`, `tools`.
// Grants: `workspace-read`.
#include <algorithm>
#include <array>

#include "tandem.hpp"

using std::optional;
using std::string;
using std::string_view;

// ---- on-tool-call: refuse a deletion of everything ----

constexpr std::array<string_view, 10> everything = { "/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*" };

static bool is_recursive(string_view flag) {
    return flag == "--recursive" || (!flag.starts_with("--") && flag.find_first_of("rR") != string_view::npos);
}

/// The first target that is everything, of an `rm` that deletes folders.
static optional<string_view> deletes_everything(string_view command) {
    std::vector<string_view> words = tandem::words(command, " \t");
    if (!words.empty() && words.front() == "sudo") words.erase(words.begin());
    if (words.empty() || (words.front() != "rm" && !words.front().ends_with("/rm"))) return std::nullopt;
    words.erase(words.begin());

    const auto is_flag = [](string_view word) { return word.starts_with("-"); };
    const auto is_everything = [](string_view word) { return std::ranges::contains(everything, word); };
    const bool recursive = std::ranges::any_of(words, [&](auto word) { return is_flag(word) && is_recursive(word); });
    const auto target = std::ranges::find_if(words, is_everything);
    return recursive && target != words.end() ? optional(*target) : std::nullopt;
}

optional<tandem::ToolCallEffect> on_tool_call(const tandem::Context &, const tandem::ToolCall &call) {
    for (string_view command : tandem::split(call.command().value_or(""), ";&|\n")) {
        if (const auto target = deletes_everything(command)) {
            return tandem::Refuse{
                "`rm -r` of `" + string(*target)
                + "` would delete what the task needs; name the folder that you mean" };
        }
    }
    return std::nullopt;
}
TANDEM_EXPORT(on_tool_call);

// ---- on-tool-result: name the failing tests ----

optional<tandem::ToolResultEffect> on_tool_result(
    const tandem::Context &, const tandem::ToolCall &call, const tandem::ToolResult &outcome) {
    if (call.name != "bash" || outcome.status != tandem::ToolStatus::finished) return std::nullopt;
    if (outcome.exit_code.value_or(0) == 0) return std::nullopt;

    constexpr string_view failed = "FAILED ";
    std::vector<string_view> names;
    for (string_view line : tandem::split(outcome.text, "\n")) {
        if (!line.starts_with(failed)) continue;
        line.remove_prefix(failed.size());
        // The reason stands behind the name, if there is one.
        const string_view name = tandem::trim(line.substr(0, line.find(" - ")), " \t\r");
        if (!name.empty()) names.push_back(name);
    }
    if (names.empty()) return std::nullopt;
    const string first(names.front());
    if (names.size() == 1) return tandem::Annotate{ "1 test fails: " + first };
    return tandem::Annotate{ std::to_string(names.size()) + " tests fail; the first is " + first };
}
TANDEM_EXPORT(on_tool_result);

// ---- tools: the first lines of a file ----

std::vector<tandem::ToolDefinition> definitions() {
    return { {
        "head",
        "Shows the first lines of a file, with their numbers.",
        R"({"type":"object","properties":{"path":{"type":"string","description":"relative to the workspace"},)"
        R"("lines":{"type":"integer","minimum":1,"maximum":200,"description":"10 unless given"}},)"
        R"("required":["path"],"additionalProperties":false})",
    } };
}

tandem::ToolOutput call(const tandem::Context &, string_view name, string_view arguments) {
    using tandem::ToolOutput;
    if (name != "head") return ToolOutput::error("there is no tool " + string(name));

    const auto given = tandem::Json::parse(arguments);
    const auto path_given = given["path"].text();
    if (!path_given) return ToolOutput::error("`path` is missing: name a file of the workspace");
    const string path(*path_given);
    const auto wanted = given["lines"] ? given["lines"].whole() : optional<std::int64_t>(10);
    if (!wanted || *wanted < 1 || *wanted > 200) {
        return ToolOutput::error("`lines` must be a whole number from 1 to 200");
    }

    const auto content = tandem::workspace::read(path);
    if (!content) {
        const bool missing = content.error().kind == tandem::WorkspaceErrorKind::not_found;
        return ToolOutput::error(path + (missing ? " does not exist" : " cannot be read"));
    }
    if (!tandem::is_utf8(*content)) return ToolOutput::error(path + " is not UTF-8 text");
    if (content->empty()) return ToolOutput::text(path + " is empty");

    const auto lines = tandem::lines(*content);
    const std::size_t shown = std::min(lines.size(), static_cast<std::size_t>(*wanted));
    string text;
    for (std::size_t i = 0; i < shown; i++) {
        if (i > 0) text += "\n";
        text += std::to_string(i + 1) + "\t" + string(lines[i]);
    }
    ToolOutput output = ToolOutput::text(text);
    output.structured = "{\"lines\":" + std::to_string(shown) + "}";
    return output;
}
TANDEM_EXPORT(tools);
