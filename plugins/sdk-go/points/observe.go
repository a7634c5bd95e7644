package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var observe func(tandem.Context, string, string) = plugin.Observe

//go:wasmexport tandem:harness/observe@0.1.0#observe
func exportObserve(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, name, nameLength, payload, payloadLength uint32) {
	defer abi.Leave()
	ctx, event, facts := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit), abi.Text(name, nameLength), abi.Text(payload, payloadLength)
	abi.Enter()
	observe(ctx, event, facts)
}
