// Package settings is the plugin's settings in the harness manifest. Grant: settings.
package settings

import (
	"unsafe"

	"tandem/internal/abi"
	"tandem/json"
)

//go:wasmimport tandem:harness/settings@0.1.0 get
func get(answer unsafe.Pointer)

// All are all settings; an empty object when there are none.
func All() json.Object {
	answer := abi.Answer()
	abi.Calling()
	get(answer.Pointer())
	text := answer.Text(0)
	abi.Called()
	all, err := json.ParseObject(text)
	if err != nil {
		return json.Object{}
	}
	return all
}
