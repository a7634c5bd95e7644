package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onLoop func(tandem.Context, tandem.Repetition) tandem.NoteOrStop = plugin.OnLoop

//go:wasmexport tandem:harness/on-loop@0.1.0#on-loop
func exportOnLoop(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, repetition uint32) uint32 {
	defer abi.Leave()
	ctx := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit)
	abi.Enter()
	return noteOrStop(onLoop(ctx, tandem.Repetition(repetition)))
}
