package main

import (
	plugin "plugin"
	"tandem/internal/abi"
)

var settingsSchema func() string = plugin.SettingsSchema

//go:wasmexport tandem:harness/settings-schema@0.1.0#settings-schema
func exportSettingsSchema() uint32 {
	defer abi.Leave()
	abi.Enter()
	result := abi.Result(8)
	result.PutText(0, settingsSchema())
	return result.Address()
}
