package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var tools func() []tandem.Tool = plugin.Tools

//go:wasmexport tandem:harness/tools@0.1.0#definitions
func exportDefinitions() uint32 {
	defer abi.Leave()
	abi.Enter()
	result := abi.Result(8)
	abi.PutList(result, 0, 24, tools(), func(b abi.Block, tool tandem.Tool) {
		b.PutText(0, tool.Name)
		b.PutText(8, tool.Description)
		b.PutText(16, tool.InputSchema)
	})
	return result.Address()
}

//go:wasmexport tandem:harness/tools@0.1.0#call
func exportCall(turn uint32, turns uint64, turnsLimited uint32, turnsLimit, tokens uint64, tokensLimited uint32, tokensLimit, seconds uint64, secondsLimited uint32, secondsLimit uint64, name, nameLength, arguments, argumentsLength uint32) uint32 {
	defer abi.Leave()
	ctx, called, given := contextOf(turn, turns, turnsLimited, turnsLimit, tokens, tokensLimited, tokensLimit, seconds, secondsLimited, secondsLimit), abi.Text(name, nameLength), abi.Text(arguments, argumentsLength)
	abi.Enter()
	output := tandem.Fail("there is no tool " + called)
	for _, tool := range tools() {
		if tool.Name == called {
			output = tool.Call(ctx, given)
			break
		}
	}
	result := abi.Result(24)
	abi.PutList(result, 0, 20, output.Content, putContent)
	if output.Structured != "" {
		result.PutU8(8, 1)
		result.PutText(12, output.Structured)
	}
	if output.IsError {
		result.PutU8(20, 1)
	}
	return result.Address()
}

func putContent(b abi.Block, content tandem.Content) {
	switch content := content.(type) {
	case tandem.Text:
		b.PutText(4, string(content))
	case tandem.Image:
		b.PutU8(0, 1)
		b.PutText(4, content.MediaType)
		b.PutBytes(12, content.Data)
	}
}
