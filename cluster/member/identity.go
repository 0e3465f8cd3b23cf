package member

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spillway-kv/spillway/tiering/model"
)

// ErrIdentity says that a node's identity file is damaged.
var ErrIdentity = errors.New("damaged identity of a node")

// Identity is who a node is, and which of its lives this is.
type Identity struct {
	ID ID
	// Start is 1 at the first start and rises with each: two lives of a node differ in it.
	Start uint64
}

// The identity file, as docs/format/gossip.md has it.
const (
	identityName  = "NODE"
	identityMagic = "SPWYNOD1"
	identityBytes = 40
)

// OpenIdentity reads the identity in dir, or makes one, and counts this start, durably. The
// directory is made if it is not there. A node that loses it is another node.
func OpenIdentity(dir string) (Identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Identity{}, err
	}
	path := filepath.Join(dir, identityName)
	b, err := model.ReadFile(path, identityBytes)
	var id Identity
	switch {
	case errors.Is(err, fs.ErrNotExist):
		rand.Read(id.ID[:]) // never fails
	case err != nil:
		return id, err
	default:
		if id, err = decodeIdentity(b); err != nil {
			return id, fmt.Errorf("%s: %w", path, err)
		}
	}
	id.Start++
	return id, replaceFile(path, encodeIdentity(id))
}

func encodeIdentity(id Identity) []byte {
	b := make([]byte, 12, identityBytes)
	copy(b, identityMagic)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = append(b, id.ID[:]...)
	b = binary.LittleEndian.AppendUint64(b, id.Start)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func decodeIdentity(b []byte) (Identity, error) {
	switch {
	case len(b) != identityBytes:
		return Identity{}, fmt.Errorf("%w: %d bytes, want %d", ErrIdentity, len(b), identityBytes)
	case string(b[:8]) != identityMagic:
		return Identity{}, fmt.Errorf("%w: it begins with %q", ErrIdentity, b[:8])
	case binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli):
		return Identity{}, fmt.Errorf("%w: its checksum is wrong", ErrIdentity)
	case binary.LittleEndian.Uint32(b[12:]) != 1:
		return Identity{}, fmt.Errorf("%w: version %d, this program knows 1", ErrIdentity, binary.LittleEndian.Uint32(b[12:]))
	}
	return Identity{ID: ID(b[16:32]), Start: binary.LittleEndian.Uint64(b[32:])}, nil
}

// replaceFile writes a small file so that a crash leaves the old or the new one: new file,
// sync, rename, sync of the directory.
func replaceFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
