package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// Names of files whose content has no magic of its own, or needs none.
const (
	DeletionsName = deletionsName
	BallastName   = ballastName
)

// DeletionsFacts are what the file of the newest deletion says.
type DeletionsFacts struct {
	Version  uint32
	StoreID  string // 32 hex digits
	Position uint64 // log position of the newest deletion
	Flaws    []Flaw
}

// IsDeletions reports whether a file that starts with head holds the newest
// deletion.
func IsDeletions(head []byte) bool { return bytes.HasPrefix(head, []byte(deletionsMagic[:7])) }

// InspectDeletions decodes what it can of the file DeletionsName.
func InspectDeletions(b []byte) DeletionsFacts {
	page := make([]byte, deletionsBytes)
	copy(page, b)
	facts := DeletionsFacts{Version: binary.LittleEndian.Uint32(page[12:]), StoreID: hex.EncodeToString(page[16:32]),
		Position: binary.LittleEndian.Uint64(page[32:])}
	if _, err := decodeDeletions(b, [16]byte(page[16:32])); err != nil {
		facts.Flaws = []Flaw{{0, err.Error(), !errors.Is(err, ErrVersion)}}
	}
	return facts
}
