// Package random has random numbers, the same for the same episode and plugin. Grant: random.
package random

// Uint64 is the next number.
//
//go:wasmimport tandem:harness/random@0.1.0 next-u64
func Uint64() uint64
