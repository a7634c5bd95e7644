// Package plugin refuses to delete everything, names the failing tests, and has a tool that shows
// the first lines of a file.
//
// Exports: tools, on-tool-call, on-tool-result. Grants: workspace-read.
package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tandem"
	"tandem/json"
	"tandem/workspace"
)

// What `rm -r` must not be aimed at.
var precious = []string{"/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*"}

// OnToolCall refuses a deletion of everything.
func OnToolCall(ctx tandem.Context, call tandem.ToolCall) tandem.RewriteOrRefuse {
	line, _ := call.Command()
	for _, command := range strings.FieldsFunc(line, isSeparator) {
		if target, ok := deletes(strings.FieldsFunc(command, isBlank)); ok {
			return tandem.Refuse("`rm -r` of `" + target + "` would delete what the task needs; name the folder that you mean")
		}
	}
	return nil
}

func isSeparator(c rune) bool { return strings.ContainsRune(";&|\n", c) }
func isBlank(c rune) bool     { return c == ' ' || c == '\t' }

// deletes is the first precious target that the words of a command delete recursively.
func deletes(words []string) (target string, ok bool) {
	if len(words) > 0 && words[0] == "sudo" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "rm" && !strings.HasSuffix(words[0], "/rm") {
		return "", false
	}
	recursive := false
	var targets []string
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") {
			targets = append(targets, word)
		} else if word == "--recursive" || !strings.HasPrefix(word, "--") && strings.ContainsAny(word, "rR") {
			recursive = true
		}
	}
	first := slices.IndexFunc(targets, func(target string) bool { return slices.Contains(precious, target) })
	if !recursive || first < 0 {
		return "", false
	}
	return targets[first], true
}

// OnToolResult names the failing tests.
func OnToolResult(ctx tandem.Context, call tandem.ToolCall, result tandem.ToolResult) tandem.AnnotateOrReplace {
	failed := result.Status == tandem.Finished && result.Exited && result.ExitCode != 0
	if call.Name != "bash" || !failed {
		return nil
	}
	var names []string
	for _, line := range strings.Split(result.Text, "\n") {
		rest, ok := strings.CutPrefix(line, "FAILED ")
		name, _, _ := strings.Cut(rest, " - ")
		if name = strings.Trim(name, " \t\r"); ok && name != "" {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return tandem.Annotate("1 test fails: " + names[0])
	}
	return tandem.Annotate(fmt.Sprintf("%d tests fail; the first is %s", len(names), names[0]))
}

// Tools has one tool.
func Tools() []tandem.Tool {
	return []tandem.Tool{{
		Name:        "head",
		Description: "Shows the first lines of a file, with their numbers.",
		InputSchema: `{"type":"object","properties":{"path":{"type":"string","description":"relative to the workspace"},"lines":{"type":"integer","minimum":1,"maximum":200,"description":"10 unless given"}},"required":["path"],"additionalProperties":false}`,
		Call:        head,
	}}
}

func head(ctx tandem.Context, text string) tandem.ToolOutput {
	arguments, _ := json.ParseObject(text)
	path, ok := arguments.Text("path")
	if !ok {
		return tandem.Fail("`path` is missing: name a file of the workspace")
	}
	count := 10
	if arguments.Has("lines") {
		if count, ok = arguments.Whole("lines"); !ok || count < 1 || count > 200 {
			return tandem.Fail("`lines` must be a whole number from 1 to 200")
		}
	}
	content, err := workspace.Read(path)
	switch {
	case errors.Is(err, workspace.ErrNotFound):
		return tandem.Fail(path + " does not exist")
	case err != nil:
		return tandem.Fail(path + " cannot be read")
	case !utf8.Valid(content):
		return tandem.Fail(path + " is not UTF-8 text")
	case len(content) == 0:
		return tandem.Say(path + " is empty")
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	lines = lines[:min(count, len(lines))]
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%d\t%s", i+1, line)
	}
	output := tandem.Say(strings.Join(lines, "\n"))
	output.Structured = json.Object{"lines": len(lines)}.String()
	return output
}
