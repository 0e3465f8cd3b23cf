package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"
)

// Errors of keys.
var (
	// ErrKey says that a key, a file of keys or a change of them is not possible.
	ErrKey = errors.New("gossip keys")
	// ErrKeyMissing says that nodes would be locked out by a change of keys.
	ErrKeyMissing = errors.New("gossip keys: some members would be locked out")
)

// fingerprint names a key without telling it.
type fingerprint [fingerprintBytes]byte

func (f fingerprint) String() string { return hex.EncodeToString(f[:]) }

func fingerprintOf(key []byte) fingerprint {
	h := sha256.New()
	h.Write([]byte("spillway gossip key\x00"))
	h.Write(key)
	return fingerprint(h.Sum(nil)[:fingerprintBytes])
}

// KeyInfo describes a key without telling it.
type KeyInfo struct {
	Fingerprint string // 16 hex digits, the same on every node
	Primary     bool   // encrypts what this node sends; all of them decrypt
	Bits        int    // 128, 192 or 256
	Configured  bool   // stands in the configuration: always tried, never removed
	// Holders are the live members that have it, by name, this node included; Users those
	// of them that encrypt with it. From gossip: moments old.
	Holders []string
	Users   []string
}

// Keys are the gossip keys of this node. Rotate in three steps, each on all nodes before
// the next: Add the new key, Use it, Remove the old one. Every change is checked, then
// saved in the file, then in force. All methods may be called from many goroutines.
type Keys struct {
	// mu guards what follows and the file, and orders changes. It is taken before others.
	mu         sync.Mutex
	ring       *memberlist.Keyring // nil: gossip is not encrypted
	file       string              // empty: keys come from the configuration only
	configured []byte              // the key of the configuration, nil if none
	changed    func()              // after each change; called with mu held
	roster     func() []keyHolder  // live members; called without mu
}

// keyHolder is a live member and its keys.
type keyHolder struct {
	name string
	keys []fingerprint
}

// openKeys reads the keys of a file, if one is named, and of the configuration. A file that
// is not there is as an empty one. Without any key the pool's gossip is not encrypted.
func openKeys(file, configured string) (*Keys, error) {
	k := &Keys{file: file, changed: func() {}, roster: func() []keyHolder { return nil }}
	var err error
	if configured != "" {
		if k.configured, err = parseKey(configured); err != nil {
			return nil, fmt.Errorf("the configured key: %w", err)
		}
	}
	var keys [][]byte
	if file != "" {
		if keys, err = readKeyFile(file); err != nil {
			return nil, err
		}
	}
	if keys, err = k.withConfigured(keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 && file != "" { // whoever names a file wants no plain gossip
		return nil, fmt.Errorf("%w: %s has no key, or is gone: put one into it (head -c 32 /dev/urandom | base64), or name no file", ErrKey, file)
	}
	if len(keys) == 0 {
		return k, nil
	}
	if k.ring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return k, nil
}

// withConfigured adds the configured key at the end of keys, unless it is among them.
func (k *Keys) withConfigured(keys [][]byte) ([][]byte, error) {
	if k.configured != nil && !hasKey(keys, k.configured) {
		keys = append(slices.Clip(keys), k.configured)
	}
	if len(keys) > KeysMax {
		return nil, fmt.Errorf("%w: %d keys, want at most %d", ErrKey, len(keys), KeysMax)
	}
	return keys, nil
}

// parseKey reads a key from base64.
func parseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%w: a key is no base64: %w", ErrKey, err)
	}
	if memberlist.ValidateKey(key) != nil {
		return nil, fmt.Errorf("%w: a key of %d bytes, want 16, 24 or 32", ErrKey, len(key))
	}
	return key, nil
}

func hasKey(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}

// installed are the keys in force, the first encrypts. Nobody may change them.
func (k *Keys) installed() [][]byte {
	if k.ring == nil {
		return nil
	}
	return k.ring.GetKeys()
}

// fingerprints are those of the keys in force, in their order.
func (k *Keys) fingerprints() []fingerprint {
	var list []fingerprint
	for _, key := range k.installed() {
		list = append(list, fingerprintOf(key))
	}
	return list
}

// Encrypted reports whether gossip is encrypted. That does not change while a node runs.
func (k *Keys) Encrypted() bool { return k.ring != nil }

// List describes the keys in force, the primary first.
func (k *Keys) List() []KeyInfo {
	roster := k.roster()
	var list []KeyInfo
	for i, key := range k.installed() {
		f := fingerprintOf(key)
		info := KeyInfo{Fingerprint: f.String(), Primary: i == 0, Bits: 8 * len(key), Configured: bytes.Equal(key, k.configured)}
		for _, h := range roster {
			if slices.Contains(h.keys, f) {
				info.Holders = append(info.Holders, h.name)
			}
			if len(h.keys) > 0 && h.keys[0] == f {
				info.Users = append(info.Users, h.name)
			}
		}
		list = append(list, info)
	}
	return list
}

// Add takes a key in base64 to decrypt with. One that is there already changes nothing.
func (k *Keys) Add(key string) (fingerprint string, err error) {
	raw, err := parseKey(key)
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keys := k.installed()
	if !hasKey(keys, raw) {
		keys = append(slices.Clone(keys), raw)
	}
	return fingerprintOf(raw).String(), k.changeLocked(keys)
}

// Use makes the key with this fingerprint the one that encrypts. It is refused with
// ErrKeyMissing while a live member does not have the key, unless forced.
func (k *Keys) Use(fingerprint string, force bool) error {
	roster := k.roster()
	k.mu.Lock()
	defer k.mu.Unlock()
	key, f, err := k.findLocked(fingerprint)
	if err != nil {
		return err
	}
	var lack []string
	for _, h := range roster {
		if !slices.Contains(h.keys, f) {
			lack = append(lack, h.name)
		}
	}
	if len(lack) > 0 && !force {
		return fmt.Errorf("%w: %s has not %s; add it there first", ErrKeyMissing, strings.Join(lack, ", "), fingerprint)
	}
	keys := slices.DeleteFunc(slices.Clone(k.installed()), func(o []byte) bool { return bytes.Equal(o, key) })
	return k.changeLocked(slices.Insert(keys, 0, key))
}

// Remove gives up the key with this fingerprint. The primary and the configured key stay;
// it is refused with ErrKeyMissing while a live member encrypts with the key, unless forced.
func (k *Keys) Remove(fingerprint string, force bool) error {
	roster := k.roster()
	k.mu.Lock()
	defer k.mu.Unlock()
	key, f, err := k.findLocked(fingerprint)
	switch {
	case err != nil:
		return err
	case bytes.Equal(key, k.installed()[0]):
		return fmt.Errorf("%w: %s is in use; use another one first", ErrKey, fingerprint)
	case bytes.Equal(key, k.configured):
		return fmt.Errorf("%w: %s stands in the configuration; take it from there and restart", ErrKey, fingerprint)
	}
	var users []string
	for _, h := range roster {
		if len(h.keys) > 0 && h.keys[0] == f {
			users = append(users, h.name)
		}
	}
	if len(users) > 0 && !force {
		return fmt.Errorf("%w: %s still encrypts with %s; use another one there first", ErrKeyMissing, strings.Join(users, ", "), fingerprint)
	}
	return k.changeLocked(slices.DeleteFunc(slices.Clone(k.installed()), func(o []byte) bool { return bytes.Equal(o, key) }))
}

func (k *Keys) findLocked(name string) ([]byte, fingerprint, error) {
	for _, key := range k.installed() {
		if f := fingerprintOf(key); f.String() == name {
			return key, f, nil
		}
	}
	return nil, fingerprint{}, fmt.Errorf("%w: there is no key %q here; spillway pool keys lists them", ErrKey, name)
}
