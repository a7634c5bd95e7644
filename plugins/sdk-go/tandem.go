// Package tandem is for writing a Tandem tool or hook in Go.
//
// A plugin is a package whose exported functions have the names and types of the table; it
// subscribes to what it defines, and to nothing else.
//
//	func Tools() []tandem.Tool
//	func SettingsSchema() string
//	func OnEpisodeStart(ctx tandem.Context, instruction string) string
//	func OnModelCall(ctx tandem.Context) tandem.NoteOrStop
//	func OnFormatError(ctx tandem.Context, problem tandem.FormatError, output string) string
//	func OnToolCall(ctx tandem.Context, call tandem.ToolCall) tandem.RewriteOrRefuse
//	func OnToolResult(ctx tandem.Context, call tandem.ToolCall, result tandem.ToolResult) tandem.AnnotateOrReplace
//	func OnLoop(ctx tandem.Context, repetition tandem.Repetition) tandem.NoteOrStop
//	func OnSubmit(ctx tandem.Context, submission tandem.Submission) string
//	func OnChoosePatch(ctx tandem.Context, candidates []tandem.PatchCandidate) (index int, ok bool)
//	func OnLimit(ctx tandem.Context, limit tandem.Limit, workTree tandem.PatchCandidate) bool
//	func Observe(ctx tandem.Context, name, payload string)
//
// A hook that has nothing to say returns nil, an empty string or false. For example:
//
//	package plugin
//
//	import "tandem"
//
//	func OnModelCall(ctx tandem.Context) tandem.NoteOrStop {
//		if ctx.Turn != 3 {
//			return nil
//		}
//		return tandem.Note("Run the tests.")
//	}
//
// What a plugin uses of the packages tandem/log, tandem/clock, tandem/random, tandem/state,
// tandem/settings, tandem/workspace and tandem/exec is what it asks for: each is a grant. Same
// input must give same output, so do not let the order of a map reach an answer.
package tandem

import "tandem/json"

// Usage says how much of one resource an episode has used, and its limit if it has one.
type Usage struct {
	Used uint64
	// Limit is meant only when Limited is true.
	Limit   uint64
	Limited bool
}

// Left is what remains of a limit; ok is false without a limit.
func (u Usage) Left() (left uint64, ok bool) {
	if u.Used > u.Limit {
		return 0, u.Limited
	}
	return u.Limit - u.Used, u.Limited
}

// Budget is the budget of an episode. Seconds are virtual: they count turns and commands as
// recorded by the host.
type Budget struct {
	Turns, Tokens, Seconds Usage
}

// Context says where in the episode a call happens. Turns count from 1.
type Context struct {
	Turn   uint32
	Budget Budget
}

// ToolCall is a tool call of the policy. Arguments is a JSON object.
type ToolCall struct {
	ID, Name, Arguments string
}

// Text is the text argument under key; ok is false when there is none.
func (c ToolCall) Text(key string) (text string, ok bool) {
	arguments, err := json.ParseObject(c.Arguments)
	if err != nil {
		return "", false
	}
	return arguments.Text(key)
}

// Command is the command line of a call of bash; ok is false for another tool.
func (c ToolCall) Command() (line string, ok bool) {
	if c.Name != "bash" {
		return "", false
	}
	return c.Text("command")
}

// ToolStatus says how a tool call ended, for bash and for plugin tools alike.
type ToolStatus uint8

const (
	// Finished: it ran to its end; for bash see the exit code.
	Finished ToolStatus = iota
	// Failed: it could not be run: unknown tool, bad arguments, a plugin fault.
	Failed
	// TimedOut: it was stopped at its time limit.
	TimedOut
	// Refused: a hook refused it.
	Refused
)

// ToolResult is what the policy is about to be shown of a tool call.
type ToolResult struct {
	Status ToolStatus
	// ExitCode is meant only when Exited is true.
	ExitCode int32
	Exited   bool
	Text     string
	// RawBytes counts the output before the cap of what the policy sees.
	RawBytes uint64
}

// WorkTree is the work tree against the commit that the episode started from. Paths are relative
// to the workspace.
type WorkTree struct {
	Changed, Untracked []string
}

// PatchSource says where a patch comes from.
type PatchSource uint8

const (
	// Submitted: the text that the policy handed in.
	Submitted PatchSource = iota
	// FromWorkTree: the difference of the work tree, made by the host.
	FromWorkTree
)

// PatchCandidate is one patch that the host could hand in.
type PatchCandidate struct {
	Source PatchSource
	// Bytes is the size of the patch; 0 is an empty patch.
	Bytes uint64
	Files []string
	// Applies says whether it applies to the commit that the episode started from.
	Applies bool
}

// Empty says whether it has no content.
func (p PatchCandidate) Empty() bool { return p.Bytes == 0 }

// Submission is what the policy hands in. The host allows two deferrals an episode.
type Submission struct {
	Patch    PatchCandidate
	WorkTree WorkTree
	// Deferrals counts how often this episode's submission was deferred already.
	Deferrals uint32
}

// FormatError says why the output of the policy could not be parsed.
type FormatError uint8

const (
	NoAction FormatError = iota
	SeveralActions
	UnknownTool
	BadArguments
	CutOff
)

// Repetition is what the host saw again and again.
type Repetition uint8

const (
	// SameCall: the same call with the same result, 4 times.
	SameCall Repetition = iota
	// SameError: the same error, 3 times.
	SameError
	// Alternating: two calls in turn, 6 times.
	Alternating
	// WithoutAction: output without an action, 3 times.
	WithoutAction
)

// Limit is the limit that ended an episode.
type Limit uint8

const (
	Turns Limit = iota
	Tokens
	Seconds
	FormatErrors
)

// NoteOrStop is what OnModelCall and OnLoop answer: a Note, a Stop, or nil.
type NoteOrStop interface{ noteOrStop() }

// RewriteOrRefuse is what OnToolCall answers: a Rewrite, a Refuse, or nil.
type RewriteOrRefuse interface{ rewriteOrRefuse() }

// AnnotateOrReplace is what OnToolResult answers: an Annotate, a Replace, or nil.
type AnnotateOrReplace interface{ annotateOrReplace() }

type (
	// Note is text at the end of the newest content that the policy has not seen.
	Note string
	// Stop ends the episode, with a reason for the record.
	Stop string
	// Rewrite runs the call with these arguments, a JSON object, instead.
	Rewrite string
	// Refuse does not run the call; the policy reads the reason as its result.
	Refuse string
	// Annotate is text after the result.
	Annotate string
	// Replace is text instead of the result.
	Replace string
)

func (Note) noteOrStop()            {}
func (Stop) noteOrStop()            {}
func (Rewrite) rewriteOrRefuse()    {}
func (Refuse) rewriteOrRefuse()     {}
func (Annotate) annotateOrReplace() {}
func (Replace) annotateOrReplace()  {}

// Tool is a tool that the policy may call beside bash.
type Tool struct {
	// Name has letters, digits, _ and -, at most 64.
	Name        string
	Description string
	// InputSchema is the JSON Schema of the arguments, an object at the top.
	InputSchema string
	// Call is called when the policy calls the tool. arguments is a JSON object.
	Call func(ctx Context, arguments string) ToolOutput
}

// ToolOutput is the result of a tool, in the shape of the Model Context Protocol.
type ToolOutput struct {
	Content []Content
	// Structured is JSON, if the tool has a structured answer; else it is empty.
	Structured string
	IsError    bool
}

// Content is a Text or an Image.
type Content interface{ content() }

// Text is a text that the policy reads.
type Text string

// Image is a picture that the policy sees.
type Image struct {
	MediaType string
	Data      []byte
}

func (Text) content()  {}
func (Image) content() {}

// Say is a result of one text.
func Say(text string) ToolOutput { return ToolOutput{Content: []Content{Text(text)}} }

// Fail is a failure that the policy reads. Say what to do instead.
func Fail(text string) ToolOutput {
	return ToolOutput{Content: []Content{Text(text)}, IsError: true}
}
