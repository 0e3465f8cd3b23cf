package main

import (
	"fmt"

	"github.com/spillway-kv/spillway/fio/units"
)

// sizeRule is the one rule for sizes, shown in every help text of a command that takes one.
const sizeRule = "Sizes: KiB, MiB, GiB, TiB count by 1024; kB, MB, GB, TB by 1000;\n  bare k, M, G, T by 1024; no suffix means bytes. 1.5GiB is fine."

// byteSize is a flag's number of bytes, more than 0; 0 means the flag is not set.
type byteSize int64

// UnmarshalText is called by the command line's parser.
func (s *byteSize) UnmarshalText(text []byte) error {
	n, err := units.ParseBytes(string(text))
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%q: a size must be more than 0", text)
	}
	*s = byteSize(n)
	return nil
}

// quotaSize is a number of bytes, or none (0).
type quotaSize int64

// UnmarshalText is called by the command line's parser.
func (s *quotaSize) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*s = 0
		return nil
	}
	n, err := units.ParseBytes(string(text))
	if err != nil {
		return err
	}
	*s = quotaSize(n)
	return nil
}
