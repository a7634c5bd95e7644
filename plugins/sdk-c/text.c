// How does a plugin take texts apart and put them together?
#include "tandem.h"

tandem_text tandem_slice(tandem_text text, size_t start, size_t end) {
    if (end > text.size) end = text.size;
    if (start > end) start = end;
    char *copy = tandem_alloc(end - start + 1);
    if (end > start) memcpy(copy, text.data + start, end - start);
    return (tandem_text){ copy, end - start };
}

tandem_text tandem_copy(const char *text) {
    return tandem_slice((tandem_text){ text, strlen(text) }, 0, SIZE_MAX);
}

bool tandem_equals(tandem_text text, const char *other) {
    return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

bool tandem_starts_with(tandem_text text, const char *start) {
    const size_t size = strlen(start);
    return text.size >= size && memcmp(text.data, start, size) == 0;
}

bool tandem_ends_with(tandem_text text, const char *end) {
    const size_t size = strlen(end);
    return text.size >= size && memcmp(text.data + text.size - size, end, size) == 0;
}

size_t tandem_find(tandem_text text, const char *part) {
    const size_t size = strlen(part);
    for (size_t at = 0; at + size <= text.size; at++) {
        if (size == 0 || (text.data[at] == *part && memcmp(text.data + at, part, size) == 0)) return at;
    }
    return text.size;
}

bool tandem_contains(tandem_text text, const char *part) {
    return *part == 0 || tandem_find(text, part) < text.size;
}

/// A set of bytes; texts are long, so it is looked up in one step.
typedef struct { bool has[256]; } set;

static set set_of(const char *bytes) {
    set made = { 0 };
    for (; *bytes != 0; bytes++) made.has[(unsigned char)*bytes] = true;
    return made;
}

tandem_text tandem_trim(tandem_text text, const char *drop) {
    const set dropped = set_of(drop);
    size_t start = 0, end = text.size;
    while (start < end && dropped.has[(unsigned char)text.data[start]]) start++;
    while (end > start && dropped.has[(unsigned char)text.data[end - 1]]) end--;
    return tandem_slice(text, start, end);
}

/// The pieces between separators, counted first so that the list is made once.
static tandem_texts pieces(tandem_text text, const char *separators, bool empty_too) {
    const set separating = set_of(separators);
    tandem_text *items = NULL;
    for (;;) {
        size_t count = 0, start = 0;
        for (size_t at = 0; at <= text.size; at++) {
            if (at < text.size && !separating.has[(unsigned char)text.data[at]]) continue;
            if (at > start || empty_too) {
                if (items != NULL) items[count] = tandem_slice(text, start, at);
                count++;
            }
            start = at + 1;
        }
        if (items != NULL || count == 0) return (tandem_texts){ items, count };
        items = tandem_alloc(count * sizeof *items);
    }
}

tandem_texts tandem_split(tandem_text text, const char *separators) {
    return pieces(text, separators, true);
}

tandem_texts tandem_words(tandem_text text, const char *separators) {
    return pieces(text, separators, false);
}

tandem_texts tandem_lines(tandem_text text) {
    if (text.size == 0) return (tandem_texts){ NULL, 0 };
    tandem_texts lines = pieces(text, "\n", true);
    if (text.data[text.size - 1] == '\n') lines.size--;
    return lines;
}

tandem_text tandem_join(tandem_texts texts, const char *separator) {
    const size_t between = strlen(separator);
    size_t size = 0;
    for (size_t i = 0; i < texts.size; i++) size += texts.items[i].size + (i > 0 ? between : 0);
    char *joined = tandem_alloc(size + 1), *end = joined;
    for (size_t i = 0; i < texts.size; i++) {
        if (i > 0) end = (char *)memcpy(end, separator, between) + between;
        if (texts.items[i].size > 0) memcpy(end, texts.items[i].data, texts.items[i].size);
        end += texts.items[i].size;
    }
    return (tandem_text){ joined, size };
}

tandem_bytes tandem_bytes_of(tandem_text text) {
    return (tandem_bytes){ (const uint8_t *)text.data, text.size };
}

/// The length of the character at `at`, or 0 if there is none (Unicode, table 3-7).
static size_t character(const uint8_t *at, size_t left) {
    const uint8_t first = at[0];
    if (first < 0x80) return 1;
    const size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (size == 0 || size > left) return 0;
    const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < size; i++) {
        if (at[i] < 0x80 || at[i] > 0xBF) return 0;
    }
    return size;
}

bool tandem_utf8(tandem_bytes bytes, tandem_text *text) {
    for (size_t at = 0, size; at < bytes.size; at += size) {
        size = character(bytes.data + at, bytes.size - at);
        if (size == 0) return false;
    }
    *text = tandem_slice((tandem_text){ (const char *)bytes.data, bytes.size }, 0, bytes.size);
    return true;
}

bool tandem_command(const tandem_tool_call *call, tandem_text *command) {
    if (!tandem_equals(call->name, "bash")) return false;
    return tandem_json_text(tandem_json_get(tandem_json_parse(call->arguments), "command"), command);
}
