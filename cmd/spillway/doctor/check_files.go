package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// looked is false where nothing could be tried out in the directory.
func (f *Facts) looked() bool { return f.DirErr == nil && f.ProbeErr == nil }

const elsewhere = "findmnt -t ext4,xfs"

func fileSystem(f *Facts, _ Plan) []Check {
	const name = "file system"
	if !f.looked() {
		return nil
	}
	kind := f.Probed.Facts.FileSystem
	found := fmt.Sprintf("%s (%s on %s)", kind, f.Mount.Source, f.Mount.Point)
	switch {
	case kind == "overlayfs" || f.Mount.Type == "overlay":
		return one(name, Bad, found, "this is the container's own layer: slow, small, and gone with the container; give it a volume on ext4 or XFS",
			"docker run --volume /nvme/kv:"+shell(f.Dir)+" ...")
	case f.Probed.InMemory:
		return one(name, Bad, found, "files here lie in memory: nothing is offloaded, and nothing survives a restart", elsewhere)
	case !f.Probed.Allowed:
		return one(name, Bad, found, "it is not known to keep what direct I/O promises: a store opens here only with --any-filesystem", elsewhere)
	}
	means := "it keeps what direct I/O promises"
	if f.Container != "" {
		means += "; this is a container (" + f.Container + ")"
	}
	return one(name, OK, found, means, "")
}

// mountOptions warns of options that take away what a store promises.
func mountOptions(f *Facts, _ Plan) []Check {
	const name = "mount"
	if !f.looked() {
		return nil
	}
	remount := func(option string) string { return "sudo mount -o remount," + option + " " + shell(f.Mount.Point) }
	var found []Check
	for _, o := range []struct {
		option string
		level  Level
		means  string
		remedy string
	}{
		{"nobarrier", Bad, "a power cut loses blocks that were acknowledged as durable", remount("barrier")},
		{"barrier=0", Bad, "a power cut loses blocks that were acknowledged as durable", remount("barrier=1")},
		{"data=journal", Bad, "every block is written twice, and not past the page cache",
			fmt.Sprintf("sudo umount %[1]s && sudo mount -o data=ordered %[2]s %[1]s", shell(f.Mount.Point), shell(f.Mount.Source))},
		{"nouser_xattr", Warn, "segments cannot keep the second copy of their header", remount("user_xattr")},
		{"errors=continue", Warn, "the file system goes on after it found itself damaged", "sudo tune2fs -e remount-ro " + shell(f.Mount.Source)},
		{"sync", Warn, "every write waits for the drive, even those that need not", remount("async")},
	} {
		if f.Mount.Has(o.option) {
			found = append(found, Check{name, o.level, "option " + o.option, o.means, o.remedy})
		}
	}
	if len(found) == 0 && len(f.Mount.Options) > 0 {
		return one(name, OK, strings.Join(f.Mount.Options, ","), "no option is in a store's way", "")
	}
	return found
}

func directIO(f *Facts, _ Plan) []Check {
	const name = "direct I/O"
	if !f.looked() {
		return nil
	}
	facts := f.Probed.Facts
	if f.Probed.NoDirect != nil {
		return one(name, Bad, f.Probed.NoDirect.Error(), "a store opens here only with --buffered-io: slower, and it takes the engine's memory for the page cache", elsewhere)
	}
	found := fmt.Sprintf("a block was written and read past the page cache; memory in steps of %d, offsets of %d bytes", facts.MemAlignBytes, facts.OffsetAlignBytes)
	const unit = 4096
	if facts.OffsetAlignBytes > unit {
		return one(name, Bad, found, fmt.Sprintf("the log is written in units of %d bytes: a store does not open here", unit), elsewhere)
	}
	return one(name, OK, found, "memory aligned like that is read into and written from without a copy", "")
}

func fileFeatures(f *Facts, _ Plan) []Check {
	if !f.looked() {
		return nil
	}
	facts := f.Probed.Facts
	notes := slices.Clone(facts.Notes)
	feature := func(name string, has bool, means, without string) Check {
		if has {
			return Check{name, OK, "works", means, ""}
		}
		c := Check{name, Warn, "does not work here", without, elsewhere}
		for i, note := range notes {
			if strings.Contains(note, c.Name) {
				c.Found = note
				notes = slices.Delete(notes, i, i+1)
				break
			}
		}
		return c
	}
	all := []Check{
		feature("extended attributes", facts.Xattrs, "segments keep a second copy of their header", "a segment whose header is damaged is lost"),
		feature("fallocate", facts.Preallocate, "a segment's space is reserved at once", "each new segment is filled with zeros first, which takes time and wear"),
	}
	for _, note := range notes {
		all = append(all, Check{"note", Warn, note, "said when the directory was tried out", elsewhere})
	}
	return all
}
