package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onFormatError func(tandem.Context, tandem.FormatError, string) string = plugin.OnFormatError

//go:wasmexport tandem:harness/on-format-error@0.1.0#on-format-error
func exportOnFormatError(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, problem, text, length uint32) uint32 {
	defer abi.Leave()
	ctx, output := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit), abi.Text(text, length)
	abi.Enter()
	return abi.Some(onFormatError(ctx, tandem.FormatError(problem), output))
}
