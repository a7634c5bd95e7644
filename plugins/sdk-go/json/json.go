// Package json reads and writes JSON without reflection: a plugin with it is half as large as one
// with encoding/json, and starts faster.
//
// Values are those of encoding/json: nil, bool, float64, string, []any, and for an object
// [Object].
package json

import (
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The deepest nesting that Parse follows.
const maxDepth = 64

// Object is a JSON object, such as the arguments of a tool call or the settings of a plugin.
type Object map[string]any

// Has says whether there is a value under key, null too.
func (o Object) Has(key string) bool {
	_, ok := o[key]
	return ok
}

// Text is the text under key; ok is false when there is none.
func (o Object) Text(key string) (text string, ok bool) {
	text, ok = o[key].(string)
	return text, ok
}

// Whole is the number under key if it has a whole value, as 10 and 10.0 have.
func (o Object) Whole(key string) (number int, ok bool) {
	value, ok := o[key].(float64)
	if !ok || value != math.Trunc(value) || math.Abs(value) > 1<<53 {
		return 0, false
	}
	return int(value), true
}

// Bool is the truth value under key; false when there is none.
func (o Object) Bool(key string) bool {
	value, _ := o[key].(bool)
	return value
}

// String is the object as compact JSON, its keys in order.
func (o Object) String() string { return Write(o) }

// ParseObject reads a JSON object.
func ParseObject(text string) (Object, error) {
	value, err := Parse(text)
	if err != nil {
		return nil, err
	}
	object, ok := value.(Object)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return object, nil
}

// Parse reads one JSON value. The error says what is wrong and at which byte.
func Parse(text string) (any, error) {
	r := reader{text: text}
	value := r.value(0)
	r.space()
	if r.problem == "" && r.at < len(text) {
		r.fail("text after the value")
	}
	if r.problem != "" {
		return nil, errors.New("not JSON at byte " + strconv.Itoa(r.at) + ": " + r.problem)
	}
	return value, nil
}

type reader struct {
	text    string
	at      int
	problem string
}

// The first problem stands, with its place.
func (r *reader) fail(what string) any {
	if r.problem == "" {
		r.problem = what
	}
	return nil
}

// The next byte, or 0 at the end or after a problem.
func (r *reader) peek() byte {
	if r.problem != "" || r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *reader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *reader) eat(token string) bool {
	found := r.problem == "" && strings.HasPrefix(r.text[r.at:], token)
	if found {
		r.at += len(token)
	}
	return found
}

func (r *reader) value(depth int) any {
	if depth > maxDepth {
		return r.fail("nested too deep")
	}
	r.space()
	switch c := r.peek(); {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == '"':
		return r.str()
	case c == '-' || '0' <= c && c <= '9':
		return r.number()
	case r.eat("true"):
		return true
	case r.eat("false"):
		return false
	case r.eat("null"):
		return nil
	}
	return r.fail("expected a value")
}

func (r *reader) object(depth int) any {
	object := Object{}
	r.at++
	r.space()
	if r.eat("}") {
		return object
	}
	for r.problem == "" {
		r.space()
		if r.peek() != '"' {
			return r.fail("expected a text in quotation marks")
		}
		key := r.str()
		r.space()
		if !r.eat(":") {
			return r.fail("expected `:`")
		}
		object[key] = r.value(depth + 1)
		r.space()
		if r.eat("}") {
			return object
		}
		if !r.eat(",") {
			return r.fail("expected `,` or `}`")
		}
	}
	return nil
}

func (r *reader) array(depth int) any {
	array := []any{}
	r.at++
	r.space()
	if r.eat("]") {
		return array
	}
	for r.problem == "" {
		array = append(array, r.value(depth+1))
		r.space()
		if r.eat("]") {
			return array
		}
		if !r.eat(",") {
			return r.fail("expected `,` or `]`")
		}
	}
	return nil
}

func (r *reader) number() any {
	end := r.at
	for end < len(r.text) && strings.IndexByte("+-.0123456789eE", r.text[end]) >= 0 {
		end++
	}
	digits := strings.TrimPrefix(r.text[r.at:end], "-")
	number, err := strconv.ParseFloat(r.text[r.at:end], 64)
	// JSON has no `01`, no `.5` and no `5.`.
	point := strings.IndexByte(digits, '.')
	leading := len(digits) > 1 && digits[0] == '0' && '0' <= digits[1] && digits[1] <= '9'
	bare := point == 0 || point >= 0 && (point+1 == len(digits) || digits[point+1] < '0' || digits[point+1] > '9')
	if err != nil || leading || bare {
		return r.fail("not a number")
	}
	r.at = end
	return number
}

func (r *reader) str() string {
	r.at++
	start := r.at
	// Most texts have no escape, and are not copied.
	for r.at < len(r.text) && r.text[r.at] != '"' && r.text[r.at] != '\\' {
		r.at++
	}
	if r.peek() == '"' {
		r.at++
		return r.text[start : r.at-1]
	}
	var b strings.Builder
	b.WriteString(r.text[start:r.at])
	for r.problem == "" {
		switch c := r.peek(); c {
		case 0:
			if r.at >= len(r.text) {
				r.fail("a text without its closing quotation mark")
				return ""
			}
			r.at++
			b.WriteByte(0)
		case '"':
			r.at++
			return b.String()
		case '\\':
			r.at++
			r.escape(&b)
		default:
			r.at++
			b.WriteByte(c)
		}
	}
	return ""
}

func (r *reader) escape(b *strings.Builder) {
	c := r.peek()
	r.at++
	switch c {
	case '"', '\\', '/':
		b.WriteByte(c)
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'u':
		code := r.hex4()
		if 0xD800 <= code && code < 0xDC00 && r.eat("\\u") {
			low := r.hex4()
			if 0xDC00 <= low && low < 0xE000 {
				code = 0x10000 + (code-0xD800)<<10 + (low - 0xDC00)
			} else {
				b.WriteRune(utf8.RuneError)
				code = low
			}
		}
		b.WriteRune(code) // half a pair becomes the replacement character
	default:
		r.at--
		r.fail("an unknown escape")
	}
}

func (r *reader) hex4() rune {
	if r.at+4 > len(r.text) {
		r.fail("`\\u` needs 4 digits")
		return 0
	}
	code, err := strconv.ParseUint(r.text[r.at:r.at+4], 16, 32)
	if err != nil {
		r.fail("`\\u` needs 4 digits")
		return 0
	}
	r.at += 4
	return rune(code)
}

// Write is a value as compact JSON: what Parse gives, and whole numbers, lists of texts and maps.
// Keys are in order. It panics on any other type.
func Write(value any) string {
	var b strings.Builder
	write(&b, value)
	return b.String()
}

func write(b *strings.Builder, value any) {
	switch value := value.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(value))
	case float64:
		b.WriteString(strconv.FormatFloat(value, 'f', -1, 64))
	case int:
		b.WriteString(strconv.Itoa(value))
	case int32:
		b.WriteString(strconv.FormatInt(int64(value), 10))
	case int64:
		b.WriteString(strconv.FormatInt(value, 10))
	case uint32:
		b.WriteString(strconv.FormatUint(uint64(value), 10))
	case uint64:
		b.WriteString(strconv.FormatUint(value, 10))
	case string:
		quote(b, value)
	case []string:
		writeList(b, value)
	case []any:
		writeList(b, value)
	case Object:
		writeObject(b, value)
	case map[string]any:
		writeObject(b, value)
	default:
		panic("json.Write knows no value of this type")
	}
}

func writeList[T any](b *strings.Builder, items []T) {
	b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		write(b, item)
	}
	b.WriteByte(']')
}

func writeObject(b *strings.Builder, object map[string]any) {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(b, key)
		b.WriteByte(':')
		write(b, object[key])
	}
	b.WriteByte('}')
}

// Quote is the text as a JSON string, with its quotation marks.
func Quote(text string) string { return Write(text) }

func quote(b *strings.Builder, text string) {
	const hex = "0123456789abcdef"
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ':
			b.WriteString(`\u00`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
