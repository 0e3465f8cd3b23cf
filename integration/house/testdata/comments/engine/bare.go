package engine

const (
	First  Kind = iota // enums are documented by their type
	Second             // or by a comment on the line
	Third
)

const Alone = 1

var (
	Documented = 1 // why
	Bare       = 2
)

// Errors of this package.
var (
	ErrOne = 1
	ErrTwo = 2
)

// Kind has a comment.
type Kind int

type Store struct{ Field int }

type (
	// Inner has a comment.
	Inner int
	Outer int
)

func Open() {}

func (s *Store) Close() {}

func (k Kind) String() string { return "" }

func (h hidden[T]) Exported() {}

type hidden[T any] struct{}
