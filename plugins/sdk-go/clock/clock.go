// Package clock is virtual time. Grant: clock.
package clock

// NowMS is the milliseconds since the episode started, as recorded.
//
//go:wasmimport tandem:harness/clock@0.1.0 now-ms
func NowMS() uint64
