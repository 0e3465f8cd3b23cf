package engine

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The index library notes the options it was opened with in a file OPTIONS-N of
// its folder: text without a checksum, which it reads at the next open only to
// refuse what does not suit it. We seal the file with a last line, a comment to
// the library: the CRC-32C of everything before it. Nothing is ever read from the
// file, so one that does not prove itself goes before the library sees it.
const (
	optionsPrefix = "OPTIONS-"
	sealPrefix    = "# spillway crc32c "
	sealBytes     = len(sealPrefix) + 8 + 1 // eight hex digits and the end of the line
	optionsMax    = 1 << 20                 // bytes of a file that is read
)

// sealOptions is the text with its seal.
func sealOptions(text []byte) []byte {
	return fmt.Appendf(bytes.Clone(text), "%s%08x\n", sealPrefix, crc32.Checksum(text, castagnoli))
}

// optionsSealed reports whether a file has a seal, cut short or with one byte
// changed, and whether seal and text prove each other. An older program made
// files without one.
func optionsSealed(raw []byte) (sealed, sound bool) {
	at := len(raw) - sealBytes
	if at < 0 {
		return false, false
	}
	if bytes.Equal(sealOptions(raw[:at]), raw) {
		return true, true
	}
	if bytes.Contains(raw[max(len(raw)-2*sealBytes, 0):], []byte(sealPrefix)) {
		return true, false // cut short, or longer
	}
	wrong := 0
	for i := range len(sealPrefix) {
		if raw[at+i] != sealPrefix[i] {
			wrong++
		}
	}
	return wrong <= 1, false
}

func readSmall(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, optionsMax+1))
	if err == nil && len(raw) > optionsMax {
		err = fmt.Errorf("%s has more than %d bytes", path, optionsMax)
	}
	return raw, errors.Join(err, f.Close())
}

// Rename implements vfs.FS. The library writes its options under another name,
// and gives them theirs when they are on stable media.
func (p pacedFS) Rename(oldName, newName string) error {
	if strings.HasPrefix(p.PathBase(newName), optionsPrefix) {
		if err := sealFile(p.FS, oldName); err != nil {
			return fmt.Errorf("seal the index's options: %w", err)
		}
	}
	return p.FS.Rename(oldName, newName)
}

func sealFile(fs vfs.FS, path string) error {
	text, err := readSmall(fs, path)
	if err != nil {
		return err
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(sealOptions(text))
	return errors.Join(err, f.Sync(), f.Close())
}

// removeUnprovenOptions removes every file of options that cannot prove itself;
// the library does without, and writes a new one.
func (ix *index) removeUnprovenOptions(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // no folder yet, or what the library will tell
	}
	for _, name := range names {
		if !strings.HasPrefix(name, optionsPrefix) {
			continue
		}
		path := fs.PathJoin(dir, name)
		raw, readErr := readSmall(fs, path)
		sealed, sound := optionsSealed(raw)
		if readErr == nil && sound {
			continue
		}
		if sealed || readErr != nil {
			ix.trouble.log.Warn("the index's file of options is damaged and is written anew; nothing depends on it", "file", name, "cause", readErr)
		}
		if err := fs.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
