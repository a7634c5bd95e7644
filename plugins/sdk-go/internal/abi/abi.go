// Package abi is the canonical ABI of the component model, as far as the contract needs it: how
// values lie in memory that the host reads and writes.
//
// Blocks of Go's heap do not move, so an address holds as long as something refers to its block.
package abi

import (
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"
)

var (
	// What the host has written and nothing has taken over yet.
	written []*byte
	// What the host may still read: the newest result.
	shown []any
)

// While the host writes into this module it must not be called, and Go's runtime looks at the
// clock where it allocates. The adapter then reads its own clock.
//
//go:wasmimport wasi_snapshot_preview1 tandem_may_leave
func mayLeave(may uint32)

func init() {
	// The collector works harder when the host's limit for a plugin, 64 MiB by default, is near.
	debug.SetMemoryLimit(44 << 20)
	mayLeave(0)
}

//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(uintptr(align))
	}
	// A builder's memory is not cleared, which a large text would pay for in fuel. Go aligns blocks
	// of 8 bytes and more to 8.
	var block strings.Builder
	block.Grow(int(size))
	block.WriteByte(0)
	first := unsafe.StringData(block.String())
	at := unsafe.Pointer(first)
	if oldSize > 0 {
		copy(unsafe.Slice(first, size), unsafe.Slice((*byte)(old), oldSize))
	}
	written = append(written, first)
	return at
}

// Enter begins a call of the host, with its arguments taken over.
func Enter() {
	mayLeave(1)
	shown = shown[:0]
}

// Leave ends a call of the host. Deferred, it also says why a call fails.
func Leave() {
	if reason := recover(); reason != nil {
		explain(reason)
		runtime.Breakpoint() // a trap
	}
	clear(written)
	written = written[:0]
	mayLeave(0)
}

// Calling comes before a call to the host that writes its answer, and Called after what it wrote
// has been taken over.
func Calling() { mayLeave(0) }

// Called ends what Calling began.
func Called() {
	clear(written)
	written = written[:0]
	mayLeave(1)
}

// The first lines of what the plugin's own functions did last; the host keeps the last 500 bytes.
func explain(reason any) {
	switch reason := reason.(type) {
	case error:
		print("panic: ", reason.Error(), "\n")
	case interface{ String() string }:
		print("panic: ", reason.String(), "\n")
	case string:
		print("panic: ", reason, "\n")
	case int:
		print("panic: ", reason, "\n")
	default:
		print("panic with a value that is no text\n")
	}
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for shown := 0; shown < 5; {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "plugin.") {
			print("  at ", frame.Function, ", ", frame.File, ":", frame.Line, "\n")
			shown++
		}
		if !more {
			return
		}
	}
}

// Block is memory that the host reads or writes.
type Block struct{ at unsafe.Pointer }

// At is memory that the host has written.
func At(address uint32) Block { return Block{unsafe.Pointer(uintptr(address))} }

// Result is a block of n bytes for the host to read until its next call.
func Result(n int) Block {
	words := make([]uint64, (n+7)/8)
	shown = append(shown, words)
	return Block{unsafe.Pointer(unsafe.SliceData(words))}
}

// Answer is a block for the host to write the answer of a call to.
func Answer() Block { return Block{unsafe.Pointer(&answer)} }

// The largest answer is that of `stat`.
var answer [4]uint64

// Address is where it begins.
func (b Block) Address() uint32 { return uint32(uintptr(b.at)) }

// Pointer is the same for a call to the host.
func (b Block) Pointer() unsafe.Pointer { return b.at }

// Part is what lies n bytes after its beginning.
func (b Block) Part(n int) Block { return Block{unsafe.Add(b.at, n)} }

func (b Block) U8(n int) uint8   { return *(*uint8)(unsafe.Add(b.at, n)) }
func (b Block) U32(n int) uint32 { return *(*uint32)(unsafe.Add(b.at, n)) }
func (b Block) U64(n int) uint64 { return *(*uint64)(unsafe.Add(b.at, n)) }
func (b Block) Bool(n int) bool  { return b.U8(n) != 0 }

// Text is the text whose address and length lie at n.
func (b Block) Text(n int) string { return Text(b.U32(n), b.U32(n+4)) }

// Bytes are the bytes whose address and length lie at n.
func (b Block) Bytes(n int) []byte {
	if b.U32(n+4) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(uintptr(b.U32(n)))), b.U32(n+4))
}

// List reads the list whose address and length lie at n; size is that of an item.
func List[T any](b Block, n, size int, read func(Block) T) []T {
	return ListAt(b.U32(n), b.U32(n+4), size, read)
}

// ListAt reads the list at an address.
func ListAt[T any](address, length uint32, size int, read func(Block) T) []T {
	items := make([]T, length)
	for i := range items {
		items[i] = read(At(address).Part(i * size))
	}
	return items
}

// Texts reads the list of texts whose address and length lie at n.
func (b Block) Texts(n int) []string {
	return List(b, n, 8, func(item Block) string { return item.Text(0) })
}

// Text is a text that the host has written.
func Text(address, length uint32) string {
	if length == 0 {
		return ""
	}
	return unsafe.String((*byte)(unsafe.Pointer(uintptr(address))), length)
}

func (b Block) PutU8(n int, value uint8)   { *(*uint8)(unsafe.Add(b.at, n)) = value }
func (b Block) PutU32(n int, value uint32) { *(*uint32)(unsafe.Add(b.at, n)) = value }

// PutText writes address and length of a text, which stays until the next call.
func (b Block) PutText(n int, text string) {
	shown = append(shown, text)
	b.PutU32(n, uint32(uintptr(unsafe.Pointer(unsafe.StringData(text)))))
	b.PutU32(n+4, uint32(len(text)))
}

// PutBytes writes address and length of bytes, which stay until the next call.
func (b Block) PutBytes(n int, bytes []byte) {
	b.PutText(n, unsafe.String(unsafe.SliceData(bytes), len(bytes)))
}

// PutList writes address and length of a list; size is that of an item.
func PutList[T any](b Block, n, size int, items []T, write func(Block, T)) {
	block := Result(size * len(items))
	for i, item := range items {
		write(block.Part(i*size), item)
	}
	b.PutU32(n, block.Address())
	b.PutU32(n+4, uint32(len(items)))
}

// Some is an optional text; an empty text is none.
func Some(text string) uint32 {
	result := Result(12)
	if text != "" {
		result.PutU8(0, 1)
		result.PutText(4, text)
	}
	return result.Address()
}

// Effect is an optional variant of which every case has a text.
func Effect(present bool, which uint8, text string) uint32 {
	result := Result(16)
	if present {
		result.PutU8(0, 1)
		result.PutU8(4, which)
		result.PutText(8, text)
	}
	return result.Address()
}

// Data is where a text begins, for a call to the host.
func Data(text string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(text)) }
