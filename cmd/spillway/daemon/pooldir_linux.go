package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// lockPoolDir makes the directory in which a node keeps who it is, in a folder that must be
// there, and locks it: no two daemons are the same node. The lock ends with its Close.
func lockPoolDir(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the pool's directory (pool.dir): %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the pool's directory (pool.dir): %w", err)
	}
	// The lock of a killed daemon goes when the system has put its memory away.
	for end := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return lock, nil
		}
		if time.Now().After(end) {
			_ = lock.Close()
			return nil, &config.Error{Text: fmt.Sprintf("pool.dir %s belongs to a node that runs: every node has a directory of its own (%v)", dir, err)}
		}
	}
}
