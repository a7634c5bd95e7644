package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onEpisodeStart func(tandem.Context, string) string = plugin.OnEpisodeStart

//go:wasmexport tandem:harness/on-episode-start@0.1.0#on-episode-start
func exportOnEpisodeStart(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, text, length uint32) uint32 {
	defer abi.Leave()
	ctx, instruction := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit), abi.Text(text, length)
	abi.Enter()
	return abi.Some(onEpisodeStart(ctx, instruction))
}
