package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onChoosePatch func(tandem.Context, []tandem.PatchCandidate) (int, bool) = plugin.OnChoosePatch

//go:wasmexport tandem:harness/on-choose-patch@0.1.0#on-choose-patch
func exportOnChoosePatch(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, list, length uint32) uint32 {
	defer abi.Leave()
	ctx, candidates := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit), abi.ListAt(list, length, 32, patchAt)
	abi.Enter()
	result := abi.Result(8)
	if index, ok := onChoosePatch(ctx, candidates); ok {
		result.PutU8(0, 1)
		result.PutU32(4, uint32(index))
	}
	return result.Address()
}
