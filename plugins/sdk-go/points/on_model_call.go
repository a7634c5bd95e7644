package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onModelCall func(tandem.Context) tandem.NoteOrStop = plugin.OnModelCall

//go:wasmexport tandem:harness/on-model-call@0.1.0#on-model-call
func exportOnModelCall(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64) uint32 {
	defer abi.Leave()
	ctx := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit)
	abi.Enter()
	return noteOrStop(onModelCall(ctx))
}
