// How does a plugin read and write JSON (RFC 8259)?
#include <math.h>
#include <stdlib.h>

#include "tandem.h"

enum { MAX_DEPTH = 64 };

typedef struct {
    const char *at, *end;
} reader;

/// A list that grows, in the memory of the call.
typedef struct {
    void *items;
    size_t size, room;
} growing;

static void *grow(growing *list, size_t item) {
    if (list->size == list->room) {
        list->room = list->room == 0 ? 8 : 2 * list->room;
        void *fresh = tandem_alloc(list->room * item);
        if (list->size > 0) memcpy(fresh, list->items, list->size * item);
        list->items = fresh;
    }
    return (char *)list->items + item * list->size++;
}

static void skip_space(reader *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r')) in->at++;
}

static bool eat(reader *in, const char *token) {
    const size_t size = strlen(token);
    if ((size_t)(in->end - in->at) < size || memcmp(in->at, token, size) != 0) return false;
    in->at += size;
    return true;
}

static bool read_hex4(reader *in, uint32_t *code) {
    if (in->end - in->at < 4) return false;
    *code = 0;
    for (int i = 0; i < 4; i++) {
        const char c = *in->at++;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return false;
        *code = *code * 16 + (uint32_t)digit;
    }
    return true;
}

static char *write_utf8(char *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    } else {
        *out++ = (char)(0xF0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

static bool read_escape(reader *in, char **out) {
    if (in->at == in->end) return false;
    const char c = *in->at++;
    static const char from[] = "ntrbf\"\\/", to[] = "\n\t\r\b\f\"\\/";
    const char *found = c == 0 ? NULL : strchr(from, c);
    if (found != NULL) {
        *(*out)++ = to[found - from];
        return true;
    }
    uint32_t code, low;
    if (c != 'u' || !read_hex4(in, &code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
        const char *before = in->at;
        if (eat(in, "\\u") && read_hex4(in, &low) && low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        } else {
            in->at = before;
        }
    }
    // Half a pair is no character.
    if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    *out = write_utf8(*out, code);
    return true;
}

static bool read_text(reader *in, tandem_text *text) {
    if (!eat(in, "\"")) return false;
    const char *end = in->at;
    while (end < in->end && *end != '"') end += *end == '\\' && end + 1 < in->end ? 2 : 1;
    if (end >= in->end) return false;
    // No escape is shorter than what it stands for.
    char *start = tandem_alloc((size_t)(end - in->at) + 1), *out = start;
    while (in->at < end) {
        // Raw line ends are not JSON, yet models write them and mean them.
        if (*in->at != '\\') *out++ = *in->at++;
        else if (in->at++, !read_escape(in, &out)) return false;
    }
    in->at = end + 1;
    *text = (tandem_text){ start, (size_t)(out - start) };
    return true;
}

static bool read_digits(reader *in) {
    const char *start = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') in->at++;
    return in->at > start;
}

static bool read_number(reader *in, double *number) {
    const char *start = in->at;
    eat(in, "-");
    if (!eat(in, "0") && !read_digits(in)) return false;
    if (eat(in, ".") && !read_digits(in)) return false;
    if (eat(in, "e") || eat(in, "E")) {
        if (!eat(in, "+")) eat(in, "-");
        if (!read_digits(in)) return false;
    }
    // A copy, since only a copy is sure to end here.
    const tandem_text text = tandem_slice((tandem_text){ start, (size_t)(in->at - start) }, 0, SIZE_MAX);
    *number = strtod(text.data, NULL);
    return true;
}

static bool read_value(reader *in, tandem_json *value, int depth);

static bool read_items(reader *in, tandem_json *value, int depth) {
    const bool object = value->kind == TANDEM_JSON_OBJECT;
    const char *close = object ? "}" : "]";
    growing items = { 0 }, keys = { 0 };
    skip_space(in);
    if (eat(in, close)) return true;
    do {
        skip_space(in);
        if (object) {
            if (!read_text(in, grow(&keys, sizeof(tandem_text)))) return false;
            skip_space(in);
            if (!eat(in, ":")) return false;
        }
        // The list may move while a value of the list is read, so it is read beside it.
        tandem_json item = { 0 };
        if (!read_value(in, &item, depth + 1)) return false;
        *(tandem_json *)grow(&items, sizeof item) = item;
        skip_space(in);
    } while (eat(in, ","));
    value->size = items.size;
    value->items = items.items;
    value->keys = keys.items;
    return eat(in, close);
}

static bool read_value(reader *in, tandem_json *value, int depth) {
    if (depth > MAX_DEPTH) return false;
    skip_space(in);
    if (in->at == in->end) return false;
    switch (*in->at) {
    case '{':
    case '[':
        value->kind = *in->at++ == '{' ? TANDEM_JSON_OBJECT : TANDEM_JSON_ARRAY;
        return read_items(in, value, depth);
    case '"':
        value->kind = TANDEM_JSON_TEXT;
        return read_text(in, &value->text);
    case 't':
    case 'f':
        value->kind = TANDEM_JSON_BOOLEAN;
        value->boolean = *in->at == 't';
        return eat(in, value->boolean ? "true" : "false");
    case 'n':
        return eat(in, "null");
    default:
        value->kind = TANDEM_JSON_NUMBER;
        return read_number(in, &value->number);
    }
}

const tandem_json *tandem_json_parse(tandem_text text) {
    reader in = { text.data, text.data + text.size };
    tandem_json *value = tandem_alloc(sizeof *value);
    if (!read_value(&in, value, 0)) return NULL;
    skip_space(&in);
    return in.at == in.end ? value : NULL;
}

const tandem_json *tandem_json_get(const tandem_json *object, const char *key) {
    if (object == NULL || object->kind != TANDEM_JSON_OBJECT) return NULL;
    for (size_t i = 0; i < object->size; i++) {
        if (tandem_equals(object->keys[i], key)) return &object->items[i];
    }
    return NULL;
}

bool tandem_json_text(const tandem_json *value, tandem_text *text) {
    if (value == NULL || value->kind != TANDEM_JSON_TEXT) return false;
    *text = value->text;
    return true;
}

bool tandem_json_whole(const tandem_json *value, int64_t *number) {
    // Past 2^53 not every whole number is a double.
    const double most = 9007199254740992.0;
    if (value == NULL || value->kind != TANDEM_JSON_NUMBER) return false;
    if (!(value->number >= -most && value->number <= most) || trunc(value->number) != value->number) return false;
    *number = (int64_t)value->number;
    return true;
}

bool tandem_json_true(const tandem_json *value) {
    return value != NULL && value->kind == TANDEM_JSON_BOOLEAN && value->boolean;
}

tandem_text tandem_json_quote(tandem_text text) {
    static const char digits[] = "0123456789abcdef";
    char *start = tandem_alloc(6 * text.size + 3), *out = start;
    *out++ = '"';
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        static const char from[] = "\n\r\t\"\\", to[] = "nrt\"\\";
        const char *found = c == 0 ? NULL : strchr(from, c);
        if (found != NULL) {
            *out++ = '\\';
            *out++ = to[found - from];
        } else if ((unsigned char)c < ' ') {
            out = (char *)memcpy(out, "\\u00", 4) + 4;
            *out++ = digits[c >> 4 & 15];
            *out++ = digits[c & 15];
        } else {
            *out++ = c;
        }
    }
    *out++ = '"';
    return (tandem_text){ start, (size_t)(out - start) };
}
