package device

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const (
	nameMaxBytes   = 255
	reservedPrefix = ".spillway-"
	tempPrefix     = reservedPrefix + "tmp."   // and a number
	probePrefix    = reservedPrefix + "probe." // and a number
)

// Reserved reports whether a file name in a directory belongs to the device
// itself: its lock, and the temporary files of calls that were cut short.
func Reserved(name string) bool {
	return name == lockName || strings.HasPrefix(name, reservedPrefix)
}

func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || len(name) > nameMaxBytes || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("device: file name %q: %w", name, fs.ErrInvalid)
	case Reserved(name):
		return fmt.Errorf("device: file name %q belongs to the device: %w", name, fs.ErrInvalid)
	}
	return nil
}

// usable checks the names of a call; life is held.
func (d *psync) usable(names ...string) error {
	if d.closed {
		return ErrClosed
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// where adds the directory to an error of a file in it.
func (d *psync) where(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("device %s: %w", d.dir, err)
}

// Remove implements Device.
func (d *psync) Remove(name string) error {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(name); err != nil {
		return err
	}
	return d.where(d.apart(func() error { return d.root.Remove(name) }))
}

// Rename implements Device.
func (d *psync) Rename(oldName, newName string) error {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(oldName, newName); err != nil {
		return err
	}
	return d.where(d.apart(func() error { return d.root.Rename(oldName, newName) }))
}

// List implements Device. The device's own files are left out.
func (d *psync) List() ([]string, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	var entries []fs.DirEntry
	err := d.apart(func() (err error) {
		entries, err = fs.ReadDir(d.root.FS(), ".")
		return err
	})
	if err != nil {
		return nil, d.where(err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !Reserved(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// ReadFile implements Device.
func (d *psync) ReadFile(name string) ([]byte, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(name); err != nil {
		return nil, err
	}
	var data []byte
	err := d.apart(func() (err error) {
		data, err = d.root.ReadFile(name)
		return err
	})
	return data, d.where(err)
}

// WriteFile implements Device: a temporary file is written, synced and renamed
// over name, then the directory is synced.
func (d *psync) WriteFile(name string, data []byte) error {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(name); err != nil {
		return err
	}
	return d.where(d.apart(func() error { return d.replace(name, data) }))
}

func (d *psync) replace(name string, data []byte) error {
	temp := tempPrefix + strconv.FormatUint(d.tempSeq.Add(1), 10)
	err := d.writeTemp(temp, data)
	if err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		_ = d.root.Remove(temp) // the first error is the one to tell
		return err
	}
	return d.handle.Sync()
}

func (d *psync) writeTemp(temp string, data []byte) error {
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// SyncDir implements Device.
func (d *psync) SyncDir() error {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usable(); err != nil {
		return err
	}
	return d.where(d.apart(d.handle.Sync))
}

// removeLeftovers removes temporary files of a holder that was killed. The
// lock is held, so nobody is using them.
func (d *psync) removeLeftovers() error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return d.where(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && isLeftover(e.Name()) {
			if err := d.root.Remove(e.Name()); err != nil {
				return d.where(err)
			}
		}
	}
	return nil
}

// isLeftover reports names that only this package makes.
func isLeftover(name string) bool {
	number, ours := strings.CutPrefix(name, tempPrefix)
	if !ours {
		number, ours = strings.CutPrefix(name, probePrefix)
	}
	if !ours {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 64)
	return err == nil
}
