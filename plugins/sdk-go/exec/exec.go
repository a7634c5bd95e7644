// Package exec runs a program in the workspace's sandbox. Grant: exec.
package exec

import (
	"unsafe"

	"tandem/internal/abi"
)

// Output is what came of a program.
type Output struct {
	// ExitCode is meant only when Exited is true: it was not stopped at its time limit.
	ExitCode int32
	Exited   bool
	// Text is standard output and error, cut head and tail at the host's cap.
	Text []byte
}

//go:wasmimport tandem:harness/exec@0.1.0 run
func run(argv unsafe.Pointer, length, timeoutMS uint32, answer unsafe.Pointer)

// Run runs argv for at most timeoutMS milliseconds. The kinds of errors are those of
// tandem/workspace.
func Run(argv []string, timeoutMS uint32) (output Output, err error) {
	answer := abi.Answer()
	words := abi.Result(8)
	abi.PutList(words, 0, 8, argv, func(b abi.Block, word string) { b.PutText(0, word) })
	abi.Calling()
	run(abi.At(words.U32(0)).Pointer(), words.U32(4), timeoutMS, answer.Pointer())
	if err = answer.WorkspaceErrorAt(4); err == nil {
		output = Output{ExitCode: int32(answer.U32(8)), Exited: answer.Bool(4), Text: answer.Bytes(12)}
	}
	abi.Called()
	return output, err
}
