// Package state is what a plugin keeps during one episode. The host holds it, with a size cap.
// Grant: state. Variables of a plugin are no place for it: a plugin starts anew after a fault.
package state

import (
	"errors"
	"strconv"
	"unsafe"

	"tandem/internal/abi"
)

//go:wasmimport tandem:harness/state@0.1.0 get
func get(key unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport tandem:harness/state@0.1.0 set
func set(key unsafe.Pointer, length uint32, value unsafe.Pointer, size uint32, answer unsafe.Pointer)

// Get is what is kept under key; ok is false when nothing is.
func Get(key string) (value []byte, ok bool) {
	answer := abi.Answer()
	abi.Calling()
	get(abi.Data(key), uint32(len(key)), answer.Pointer())
	if ok = answer.Bool(0); ok {
		value = answer.Bytes(4)
	}
	abi.Called()
	return value, ok
}

// Set keeps a value. The error says by how much the cap would be passed.
func Set(key string, value []byte) error {
	answer := abi.Answer()
	abi.Calling()
	set(abi.Data(key), uint32(len(key)), unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)), answer.Pointer())
	var err error
	if answer.Bool(0) {
		err = errors.New(answer.Text(4))
	}
	abi.Called()
	return err
}

// Text is the text under key; an empty one when nothing is kept.
func Text(key string) string {
	value, _ := Get(key)
	return string(value)
}

// Number is the number under key; 0 when none is kept.
func Number(key string) uint64 {
	number, err := strconv.ParseUint(Text(key), 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// SetNumber keeps a number. Nothing is kept past the host's cap.
func SetNumber(key string, number uint64) {
	// A few digits never pass a cap that holds anything at all.
	_ = Set(key, strconv.AppendUint(nil, number, 10))
}
