package job

import "fmt"

// Place is where something was written.
type Place struct {
	File string // a path, or CommandLine
	Line int    // from 1; 0 on the command line
}

// CommandLine stands for a file in a Place.
const CommandLine = "command line"

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is what is wrong with a job, and where. Its text begins with the place.
type Error struct {
	Place Place
	Err   error
}

func (e *Error) Error() string { return e.Place.String() + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func wrong(p Place, err error) error {
	if err == nil {
		return nil
	}
	return &Error{p, err}
}
