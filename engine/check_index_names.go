package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// indexFile is what the name of a file in the index's folder says.
type indexFile int

const (
	indexFileUnknown  indexFile = iota
	indexFileBytes              // tables, lists of files, blobs: somebody else reads them
	indexFileEmpty              // only its name means something
	indexFileOptions            // checked here
	indexFileLeftover           // of a call cut short; removed at the next open
)

// Names of the two markers, empty files whose names end in what they say:
// marker.NAME.COUNT.VALUE.
const (
	markerPrefix   = "marker."
	markerManifest = "manifest"
	markerFormat   = "format-version"
)

// indexFileOf tells the kind of a file by its name. Everything the index library
// writes is here: what is not is somebody else's, or a name that was changed.
func indexFileOf(name string) indexFile {
	numbered := func(rest string) bool {
		_, err := strconv.ParseUint(rest, 10, 64)
		return err == nil && len(rest) >= 6
	}
	if name == "LOCK" {
		return indexFileEmpty
	}
	if rest, ok := strings.CutPrefix(name, optionsPrefix); ok && numbered(rest) {
		return indexFileOptions
	}
	if rest, ok := strings.CutPrefix(name, "MANIFEST-"); ok && numbered(rest) {
		return indexFileBytes
	}
	if strings.HasPrefix(name, markerPrefix) {
		if marker, _, ok := splitMarker(name); ok && (marker == markerManifest || marker == markerFormat) {
			return indexFileEmpty
		}
		return indexFileUnknown
	}
	base, extension, _ := strings.Cut(name, ".")
	switch {
	case (extension == "sst" || extension == "blob") && numbered(base):
		return indexFileBytes
	case extension == "log" && numbered(base):
		return indexFileEmpty
	case strings.HasSuffix(name, ".dbtmp"):
		return indexFileLeftover
	}
	return indexFileUnknown
}

// splitMarker takes the name of a marker apart.
func splitMarker(name string) (marker, value string, ok bool) {
	parts := strings.SplitN(name, ".", 4)
	if len(parts) < 4 {
		return "", "", false
	}
	_, err := strconv.ParseUint(parts[2], 10, 64)
	return parts[1], parts[3], err == nil
}

// markerTrouble is what the markers say of an index that did not open: their
// names were changed (ErrCorrupt), or a later program wrote it (ErrVersion). The
// library's own errors do not tell.
func markerTrouble(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // what kept the library from it, it has said
	}
	format := uint64(0)
	for _, name := range names {
		marker, value, ok := splitMarker(name)
		if !strings.HasPrefix(name, markerPrefix) {
			continue
		}
		if ok && marker == markerFormat {
			n, err := strconv.ParseUint(value, 10, 64)
			ok = err == nil && n >= uint64(pebble.FormatMinSupported)
			format = max(format, n)
		}
		if !ok {
			return ErrCorrupt
		}
	}
	if format > uint64(indexFormatPinned) {
		return ErrVersion
	}
	return nil
}

// checkIndexNames looks at the folder's names, at the files that must be empty,
// and at the library's options. What it finds leaves the entries as they are.
func (c *checker) checkIndexNames(path string) error {
	names, err := c.fs.List(path)
	if err != nil {
		return fmt.Errorf("list %s: %w", c.index.folder, err)
	}
	for _, name := range names {
		in := c.index.folder + "/" + name
		switch indexFileOf(name) {
		case indexFileUnknown:
			c.notice(in, "this file is none of the index's", "it is left alone; if its name was changed, the index lacks it")
		case indexFileEmpty:
			if info, err := c.fs.Stat(c.fs.PathJoin(path, name)); err == nil && info.Size() > 0 {
				c.damage(in, 0, fmt.Sprintf("the file has %d bytes and should be empty", info.Size()), indexMeans)
			}
			if marker, value, _ := splitMarker(name); marker == markerFormat && value != fmt.Sprintf("%03d", indexFormatPinned) {
				c.notice(in, fmt.Sprintf("the index's format is %q, this program writes %03d", value, indexFormatPinned), "an open raises a lower one, and refuses what it does not know")
			}
		case indexFileOptions:
			c.checkOptions(in, c.fs.PathJoin(path, name))
		}
	}
	return nil
}

func (c *checker) checkOptions(in, path string) {
	const means = "nothing depends on it; the next open writes it anew"
	raw, err := readSmall(c.fs, path)
	if err != nil {
		c.damage(in, -1, err.Error(), means)
		return
	}
	switch sealed, sound := optionsSealed(raw); {
	case sealed && !sound:
		c.damage(in, -1, "the file fails its checksum", means)
	case !sealed:
		c.notice(in, "the file has no checksum: an older program wrote it, or its end is gone", means)
	}
}
