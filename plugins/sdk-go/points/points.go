// Package main is what the host calls: of the other files of this folder those whose function the
// plugin defines.
package main

import (
	"tandem"
	"tandem/internal/abi"
)

func main() {}

// A context, as it is passed in numbers.
func contextOf(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64) tandem.Context {
	return tandem.Context{Turn: turn, Budget: tandem.Budget{
		Turns:   tandem.Usage{Used: turns, Limit: turnsLimit, Limited: turnsLimited != 0},
		Tokens:  tandem.Usage{Used: tokens, Limit: tokensLimit, Limited: tokensLimited != 0},
		Seconds: tandem.Usage{Used: seconds, Limit: secondsLimit, Limited: secondsLimited != 0},
	}}
}

// A context in memory; it has 80 bytes.
func contextAt(b abi.Block) tandem.Context {
	usage := func(n int) tandem.Usage {
		return tandem.Usage{Used: b.U64(n), Limit: b.U64(n + 16), Limited: b.Bool(n + 8)}
	}
	return tandem.Context{Turn: b.U32(0), Budget: tandem.Budget{Turns: usage(8), Tokens: usage(32), Seconds: usage(56)}}
}

func patchAt(b abi.Block) tandem.PatchCandidate {
	return tandem.PatchCandidate{
		Source: tandem.PatchSource(b.U8(0)), Bytes: b.U64(8), Files: b.Texts(16), Applies: b.Bool(24),
	}
}

func callAt(b abi.Block) tandem.ToolCall {
	return tandem.ToolCall{ID: b.Text(0), Name: b.Text(8), Arguments: b.Text(16)}
}

func noteOrStop(effect tandem.NoteOrStop) uint32 {
	switch effect := effect.(type) {
	case tandem.Note:
		return abi.Effect(true, 0, string(effect))
	case tandem.Stop:
		return abi.Effect(true, 1, string(effect))
	}
	return abi.Effect(false, 0, "")
}
