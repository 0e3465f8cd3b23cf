package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/fio/units"
)

// Size is a number of bytes, written as "64KiB", or plain in bytes.
type Size int64

func (s *Size) UnmarshalText(text []byte) error {
	n, err := units.ParseBytes(string(text))
	*s = Size(n)
	return err
}

func (s Size) MarshalText() ([]byte, error) { return []byte(exactBytes(int64(s))), nil }

// exactBytes writes n by the largest unit that divides it.
func exactBytes(n int64) string {
	for i, suffix := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if unit := int64(1) << (40 - 10*i); n >= unit && n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// Quota is a Size, or "none", or not given.
type Quota struct {
	text  string
	bytes int64
}

func (q *Quota) UnmarshalText(text []byte) error {
	*q = Quota{text: string(text)}
	switch q.text {
	case "":
		return nil
	case "none":
		q.bytes = node.NoQuota
		return nil
	}
	n, err := units.ParseBytes(q.text)
	if err == nil && n == 0 {
		err = errors.New(`a quota of 0; write "none" to have none`)
	}
	q.bytes = n
	return err
}

func (q Quota) MarshalText() ([]byte, error) { return []byte(q.text), nil }

// Bytes is the quota as node.NamespaceRule has it.
func (q Quota) Bytes() int64 { return q.bytes }

// Duration is a time, written as "30ms" or "2s": a bare number has no unit and is
// refused.
type Duration struct{ time.Duration }

func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a time; write it like 30ms, 2s or 1m", text)
	}
	d.Duration = parsed
	return nil
}

func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String is that of time.Duration without units of 0: 1m, not 1m0s.
func (d Duration) String() string {
	s := d.Duration.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Mode is the permissions of a file, in octal, written as "0660".
type Mode struct{ fs.FileMode }

func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 16)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q are no permissions; write them like 0660", text)
	}
	m.FileMode = fs.FileMode(n)
	return nil
}

func (m Mode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", m.Perm()), nil }

// Secret is never written out. (It is no string: those are written as they are.)
type Secret struct{ text string }

func (s *Secret) UnmarshalText(text []byte) error {
	s.text = string(text)
	return nil
}

func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String hides it from logs.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "(hidden)"
}
