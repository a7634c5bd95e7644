package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onLimit func(tandem.Context, tandem.Limit, tandem.PatchCandidate) bool = plugin.OnLimit

//go:wasmexport tandem:harness/on-limit@0.1.0#on-limit
func exportOnLimit(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, limit, source uint32, bytes uint64, files, filesLength, applies uint32) uint32 {
	defer abi.Leave()
	ctx, workTree := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit), tandem.PatchCandidate{
		Source: tandem.PatchSource(source), Bytes: bytes, Applies: applies != 0,
		Files: abi.ListAt(files, filesLength, 8, func(b abi.Block) string { return b.Text(0) }),
	}
	abi.Enter()
	if onLimit(ctx, tandem.Limit(limit), workTree) {
		return 1
	}
	return 0
}
