package abi

// How the workspace capabilities fail, as the contract numbers it.
const (
	NotFound = iota
	Denied
	TooLarge
	Failed
)

// WorkspaceError is an error of the workspace capabilities.
type WorkspaceError struct {
	Which uint8
	// What is the path, or what happened.
	What string
}

func (e *WorkspaceError) Error() string {
	switch e.Which {
	case NotFound:
		return e.What + " does not exist"
	case Denied:
		return e.What + " is outside the workspace or may not be used"
	}
	return e.What
}

// Is makes errors.Is compare what happened and not where.
func (e *WorkspaceError) Is(other error) bool {
	kind, ok := other.(*WorkspaceError)
	return ok && kind.What == "" && kind.Which == e.Which
}

// WorkspaceErrorAt reads an error; nil when the answer in which it lies at n is no failure.
func (b Block) WorkspaceErrorAt(n int) error {
	if !b.Bool(0) {
		return nil
	}
	return &WorkspaceError{b.U8(n), b.Text(n + 4)}
}
