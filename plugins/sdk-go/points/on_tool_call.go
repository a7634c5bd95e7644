package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onToolCall func(tandem.Context, tandem.ToolCall) tandem.RewriteOrRefuse = plugin.OnToolCall

//go:wasmexport tandem:harness/on-tool-call@0.1.0#on-tool-call
func exportOnToolCall(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, id, idLength, name, nameLength, arguments, argumentsLength uint32) uint32 {
	defer abi.Leave()
	ctx := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit)
	call := tandem.ToolCall{ID: abi.Text(id, idLength), Name: abi.Text(name, nameLength), Arguments: abi.Text(arguments, argumentsLength)}
	abi.Enter()
	switch effect := onToolCall(ctx, call).(type) {
	case tandem.Rewrite:
		return abi.Effect(true, 0, string(effect))
	case tandem.Refuse:
		return abi.Effect(true, 1, string(effect))
	}
	return abi.Effect(false, 0, "")
}
