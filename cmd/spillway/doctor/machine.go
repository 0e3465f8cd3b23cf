// Package doctor looks at a directory and the machine below it and says what is
// wrong there for a store, and what mends it.
//
// Facts are gathered first, all of them by Machine, which reads files below a
// root and makes a few calls; checks are functions of the facts alone.
package doctor

import (
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/machine"
)

// Machine is where facts come from.
type Machine struct {
	machine.System // /proc, /sys and the container's marks
	// The calls that no file answers.
	Probe  func(dir string) (device.Probed, error)
	Uring  func() error
	Holder func(dir string) (holder string, held bool, err error)
	Space  func(dir string) (device.Space, error)

	VerbsBuilt bool                          // this program can use RDMA devices
	Verbs      func() ([]fabric.Port, error) // the ports of RDMA devices, as the library tells
	MayUse     func(device string) error     // why a device's file cannot be opened
	Networks   func(iface string) []netip.Prefix
}

// This is the machine that the process runs on.
func This() Machine {
	return Machine{System: machine.This(), Probe: device.Probe, Uring: device.ProbeUring, Holder: device.Holder, Space: spaceOf,
		VerbsBuilt: verbs.Built, Verbs: verbs.New().Ports, MayUse: mayUse, Networks: networksOf}
}

// nearest is dir, absolute and with its links resolved, or the nearest folder
// above it that exists, so many levels up.
func nearest(dir string) (path string, levels int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", 0, err
	}
	for {
		path, err = filepath.EvalSymlinks(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return path, levels, err
		}
		dir = filepath.Dir(dir)
		levels++
	}
}
