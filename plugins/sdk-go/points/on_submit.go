package main

import (
	plugin "plugin"
	"tandem"
	"tandem/internal/abi"
)

var onSubmit func(tandem.Context, tandem.Submission) string = plugin.OnSubmit

//go:wasmexport tandem:harness/on-submit@0.1.0#on-submit
func exportOnSubmit(parameters uint32) uint32 {
	defer abi.Leave()
	all := abi.At(parameters)
	ctx, submission := contextAt(all), tandem.Submission{
		Patch:     patchAt(all.Part(80)),
		WorkTree:  tandem.WorkTree{Changed: all.Texts(112), Untracked: all.Texts(120)},
		Deferrals: all.U32(128),
	}
	abi.Enter()
	return abi.Some(onSubmit(ctx, submission))
}
