package member

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/tiering/model"
)

// keyFileBytesMax bounds a file of keys; comments have room.
const keyFileBytesMax = 64 << 10

// readKeyFile reads the keys of a file: one a line in base64, the first encrypts; empty
// lines and those that begin with # say nothing. A file that is not there has none.
func readKeyFile(path string) ([][]byte, error) {
	text, err := model.ReadFile(path, keyFileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	var keys [][]byte
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number, err)
		}
		if !hasKey(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// writeKeyFile replaces the file; comments in it are lost.
func writeKeyFile(path string, keys [][]byte) error {
	text := []byte("# Gossip keys in base64. The first one encrypts, all of them decrypt.\n")
	for _, key := range keys {
		text = append(base64.StdEncoding.AppendEncode(text, key), '\n')
	}
	if err := replaceFile(path, text); err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	return nil
}

// Reload reads the file again, after somebody else has written it. A file with a fault
// changes nothing.
func (k *Keys) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == "" {
		return nil
	}
	keys, err := readKeyFile(k.file)
	if err != nil {
		return err
	}
	if keys, err = k.withConfigured(keys); err != nil {
		return err
	}
	if err := k.switchable(keys); err != nil {
		return err
	}
	k.installLocked(keys)
	return nil
}

// switchable refuses to begin or to end encryption while the node runs: it would hear
// nobody, and nobody it.
func (k *Keys) switchable(keys [][]byte) error {
	switch {
	case k.ring == nil && len(keys) > 0:
		return fmt.Errorf("%w: gossip is not encrypted; set a key on all nodes and start them again", ErrKey)
	case k.ring != nil && len(keys) == 0:
		return fmt.Errorf("%w: no key is left; to end encryption stop all nodes", ErrKey)
	}
	return nil
}

// changeLocked checks, saves and then installs keys.
func (k *Keys) changeLocked(keys [][]byte) error {
	if len(keys) > KeysMax {
		return fmt.Errorf("%w: %d keys, want at most %d; remove one first", ErrKey, len(keys), KeysMax)
	}
	if err := k.switchable(keys); err != nil {
		return err
	}
	if k.file == "" {
		return fmt.Errorf("%w: no file of keys is configured, so that a change would be lost", ErrKey)
	}
	if err := writeKeyFile(k.file, keys); err != nil {
		return err
	}
	k.installLocked(keys)
	return nil
}

// installLocked puts keys in force. First it adds, so that there is no moment at which a
// key of both sets does not decrypt, except those that stand behind a removed one: the
// library shifts keys in place under its readers, unless it removes the last of them.
// So keys are taken from the end, and put back.
func (k *Keys) installLocked(keys [][]byte) {
	if k.ring == nil {
		return
	}
	for _, key := range keys {
		_ = k.ring.AddKey(key) // its size is checked
	}
	_ = k.ring.UseKey(keys[0]) // it was added
	all := slices.Clone(k.ring.GetKeys())
	first := slices.IndexFunc(all, func(key []byte) bool { return !hasKey(keys, key) })
	if first > 0 {
		for _, key := range slices.Backward(all[first:]) {
			_ = k.ring.RemoveKey(key) // never the primary, which stands before first
		}
		for _, key := range all[first:] {
			if hasKey(keys, key) {
				_ = k.ring.AddKey(key)
			}
		}
	}
	k.changed()
}
