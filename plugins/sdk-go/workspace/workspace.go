// Package workspace is the files of the task. Paths are relative to the workspace; links out of it
// are refused. Grants: workspace-read, and workspace-write for Write.
package workspace

import (
	"unsafe"

	"tandem/internal/abi"
)

// Kinds of errors, for errors.Is. What an error says is one sentence for a policy to read.
var (
	ErrNotFound error = &abi.WorkspaceError{Which: abi.NotFound}
	// ErrDenied: outside the workspace, or not a file or folder that may be used.
	ErrDenied error = &abi.WorkspaceError{Which: abi.Denied}
	// ErrTooLarge: past a cap.
	ErrTooLarge error = &abi.WorkspaceError{Which: abi.TooLarge}
	ErrFailed   error = &abi.WorkspaceError{Which: abi.Failed}
)

// Entry is a file or a folder.
type Entry struct {
	Path   string
	Folder bool
	Bytes  uint64
}

// Hit is a line that Search found. Lines count from 1.
type Hit struct {
	Path string
	Line uint32
	Text string
}

//go:wasmimport tandem:harness/workspace-read@0.1.0 read
func read(path unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport tandem:harness/workspace-read@0.1.0 list
func list(path unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport tandem:harness/workspace-read@0.1.0 stat
func stat(path unsafe.Pointer, length uint32, answer unsafe.Pointer)

//go:wasmimport tandem:harness/workspace-read@0.1.0 search
func search(text unsafe.Pointer, length uint32, suffix unsafe.Pointer, suffixLength, maxHits uint32, answer unsafe.Pointer)

//go:wasmimport tandem:harness/workspace-read@0.1.0 diff
func diff(answer unsafe.Pointer)

//go:wasmimport tandem:harness/workspace-read@0.1.0 untracked
func untracked(answer unsafe.Pointer)

//go:wasmimport tandem:harness/workspace-write@0.1.0 write
func write(path unsafe.Pointer, length uint32, content unsafe.Pointer, size uint32, answer unsafe.Pointer)

// Read is the content of a file.
func Read(path string) (content []byte, err error) {
	answer := abi.Answer()
	abi.Calling()
	read(abi.Data(path), uint32(len(path)), answer.Pointer())
	if err = answer.WorkspaceErrorAt(4); err == nil {
		content = answer.Bytes(4)
	}
	abi.Called()
	return content, err
}

// List is what is in a folder.
func List(path string) (entries []Entry, err error) {
	answer := abi.Answer()
	abi.Calling()
	list(abi.Data(path), uint32(len(path)), answer.Pointer())
	if err = answer.WorkspaceErrorAt(4); err == nil {
		entries = abi.List(answer, 4, 24, entry)
	}
	abi.Called()
	return entries, err
}

func entry(b abi.Block) Entry { return Entry{b.Text(0), b.Bool(8), b.U64(16)} }

// Stat says what lies at a path.
func Stat(path string) (found Entry, err error) {
	answer := abi.Answer()
	abi.Calling()
	stat(abi.Data(path), uint32(len(path)), answer.Pointer())
	if err = answer.WorkspaceErrorAt(8); err == nil {
		found = entry(answer.Part(8))
	}
	abi.Called()
	return found, err
}

// Search is the lines that contain text, in files whose name ends in suffix.
func Search(text, suffix string, maxHits uint32) (hits []Hit, err error) {
	answer := abi.Answer()
	abi.Calling()
	search(abi.Data(text), uint32(len(text)), abi.Data(suffix), uint32(len(suffix)), maxHits, answer.Pointer())
	if err = answer.WorkspaceErrorAt(4); err == nil {
		hits = abi.List(answer, 4, 20, func(b abi.Block) Hit { return Hit{b.Text(0), b.U32(8), b.Text(12)} })
	}
	abi.Called()
	return hits, err
}

// Diff is the difference of the work tree to the start of the episode.
func Diff() (patch []byte, err error) {
	answer := abi.Answer()
	abi.Calling()
	diff(answer.Pointer())
	if err = answer.WorkspaceErrorAt(4); err == nil {
		patch = answer.Bytes(4)
	}
	abi.Called()
	return patch, err
}

// Untracked is the files that are new.
func Untracked() (paths []string, err error) {
	answer := abi.Answer()
	abi.Calling()
	untracked(answer.Pointer())
	if err = answer.WorkspaceErrorAt(4); err == nil {
		paths = answer.Texts(4)
	}
	abi.Called()
	return paths, err
}

// Write gives a file a new content. Grant: workspace-write.
func Write(path string, content []byte) error {
	answer := abi.Answer()
	abi.Calling()
	write(abi.Data(path), uint32(len(path)), unsafe.Pointer(unsafe.SliceData(content)), uint32(len(content)), answer.Pointer())
	err := answer.WorkspaceErrorAt(4)
	abi.Called()
	return err
}
