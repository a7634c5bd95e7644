// Refuses `rm -r` of everything, names failing tests, and gives the tool `head`.
//
// Exports: `on-tool-call`, `on-tool-result`, `tools`.
// Grants: `workspace-read`.
#include "tandem.h"

// ---- on-tool-call: refuse a deletion of everything ----

static bool is_everything(tandem_text target) {
    static const char *const everything[] = { "/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*" };
    for (size_t i = 0; i < sizeof everything / sizeof *everything; i++) {
        if (tandem_equals(target, everything[i])) return true;
    }
    return false;
}

static bool is_recursive(tandem_text flag) {
    if (tandem_equals(flag, "--recursive")) return true;
    return !tandem_starts_with(flag, "--") && (tandem_contains(flag, "r") || tandem_contains(flag, "R"));
}

/// The first target that is everything, of an `rm` that deletes folders.
static bool deletes_everything(tandem_texts words, tandem_text *target) {
    size_t at = words.size > 0 && tandem_equals(words.items[0], "sudo") ? 1 : 0;
    if (at == words.size) return false;
    if (!tandem_equals(words.items[at], "rm") && !tandem_ends_with(words.items[at], "/rm")) return false;

    bool recursive = false, found = false;
    for (at++; at < words.size; at++) {
        const tandem_text word = words.items[at];
        if (tandem_starts_with(word, "-")) {
            recursive |= is_recursive(word);
        } else if (!found && is_everything(word)) {
            *target = word;
            found = true;
        }
    }
    return recursive && found;
}

const tandem_tool_call_effect *tandem_on_tool_call(const tandem_context *, const tandem_tool_call *call) {
    tandem_text command, target;
    if (!tandem_command(call, &command)) return NULL;

    const tandem_texts commands = tandem_split(command, ";&|\n");
    for (size_t i = 0; i < commands.size; i++) {
        if (deletes_everything(tandem_words(commands.items[i], " \t"), &target)) {
            return tandem_refuse(
                "`rm -r` of `%s` would delete what the task needs; name the folder that you mean", target.data);
        }
    }
    return NULL;
}
TANDEM_EXPORT(on_tool_call);

// ---- on-tool-result: name the failing tests ----

const tandem_tool_result_effect *tandem_on_tool_result(
    const tandem_context *, const tandem_tool_call *call, const tandem_tool_result *outcome) {
    if (!tandem_equals(call->name, "bash") || outcome->status != TANDEM_FINISHED) return NULL;
    if (!outcome->has_exit_code || outcome->exit_code == 0) return NULL;

    static const char failed[] = "FAILED ";
    size_t count = 0;
    tandem_text first = { 0 };
    const tandem_texts lines = tandem_split(outcome->text, "\n");
    for (size_t i = 0; i < lines.size; i++) {
        if (!tandem_starts_with(lines.items[i], failed)) continue;
        const tandem_text rest = tandem_slice(lines.items[i], strlen(failed), SIZE_MAX);
        // The reason stands behind the name, if there is one.
        const tandem_text name = tandem_trim(tandem_slice(rest, 0, tandem_find(rest, " - ")), " \t\r");
        if (name.size == 0) continue;
        if (count++ == 0) first = name;
    }
    if (count == 0) return NULL;
    if (count == 1) return tandem_annotate("1 test fails: %s", first.data);
    return tandem_annotate("%zu tests fail; the first is %s", count, first.data);
}
TANDEM_EXPORT(on_tool_result);

// ---- tools: the first lines of a file ----

tandem_tool_definitions tandem_definitions(void) {
    static const tandem_tool_definition head = {
        TANDEM_TEXT("head"),
        TANDEM_TEXT("Shows the first lines of a file, with their numbers."),
        TANDEM_TEXT("{\"type\":\"object\",\"properties\":{"
                    "\"path\":{\"type\":\"string\",\"description\":\"relative to the workspace\"},"
                    "\"lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":200,\"description\":\"10 unless given\"}},"
                    "\"required\":[\"path\"],\"additionalProperties\":false}"),
    };
    return (tandem_tool_definitions){ &head, 1 };
}

tandem_tool_output tandem_call(const tandem_context *, tandem_text name, tandem_text arguments) {
    if (!tandem_equals(name, "head")) return tandem_error("there is no tool %s", name.data);

    const tandem_json *given = tandem_json_parse(arguments);
    tandem_text path;
    if (!tandem_json_text(tandem_json_get(given, "path"), &path)) {
        return tandem_error("`path` is missing: name a file of the workspace");
    }
    int64_t wanted = 10;
    const tandem_json *lines_given = tandem_json_get(given, "lines");
    if (lines_given != NULL && (!tandem_json_whole(lines_given, &wanted) || wanted < 1 || wanted > 200)) {
        return tandem_error("`lines` must be a whole number from 1 to 200");
    }

    tandem_bytes content;
    tandem_workspace_error error;
    if (!tandem_workspace_read(path, &content, &error)) {
        if (error.kind == TANDEM_NOT_FOUND) return tandem_error("%s does not exist", path.data);
        return tandem_error("%s cannot be read", path.data);
    }
    tandem_text text;
    if (!tandem_utf8(content, &text)) return tandem_error("%s is not UTF-8 text", path.data);
    if (text.size == 0) return tandem_answer("%s is empty", path.data);

    tandem_texts lines = tandem_lines(text);
    if (lines.size > (size_t)wanted) lines.size = (size_t)wanted;
    tandem_text *shown = tandem_alloc(lines.size * sizeof *shown);
    for (size_t i = 0; i < lines.size; i++) {
        const tandem_text parts[] = { tandem_format("%zu", i + 1), lines.items[i] };
        shown[i] = tandem_join((tandem_texts){ parts, 2 }, "\t");
    }
    const tandem_text joined = tandem_join((tandem_texts){ shown, lines.size }, "\n");
    return tandem_answer_with(joined, tandem_format("{\"lines\":%zu}", lines.size));
}
TANDEM_EXPORT(tools);
