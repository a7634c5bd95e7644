// Package log is for messages to the plugin's author, kept in the episode's record. Grant: log.
package log

import (
	"unsafe"

	"tandem/internal/abi"
)

//go:wasmimport tandem:harness/log@0.1.0 log
func write(level uint32, text unsafe.Pointer, length uint32)

func Debug(message string) { write(0, abi.Data(message), uint32(len(message))) }
func Info(message string)  { write(1, abi.Data(message), uint32(len(message))) }
func Warn(message string)  { write(2, abi.Data(message), uint32(len(message))) }
