package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onToolResult func(tandem.Context, tandem.ToolCall, tandem.ToolResult) tandem.AnnotateOrReplace = plugin.OnToolResult

//go:wasmexport tandem:harness/on-tool-result@0.1.0#on-tool-result
func exportOnToolResult(parameters uint32) uint32 {
	defer abi.Leave()
	all := abi.At(parameters)
	ctx, call, outcome := contextAt(all), callAt(all.Part(80)), all.Part(104)
	result := tandem.ToolResult{
		Status: tandem.ToolStatus(outcome.U8(0)), ExitCode: int32(outcome.U32(8)), Exited: outcome.Bool(4),
		Text: outcome.Text(12), RawBytes: outcome.U64(24),
	}
	abi.Enter()
	switch effect := onToolResult(ctx, call, result).(type) {
	case tandem.Annotate:
		return abi.Effect(true, 0, string(effect))
	case tandem.Replace:
		return abi.Effect(true, 1, string(effect))
	}
	return abi.Effect(false, 0, "")
}
