//go:build verbs && linux

package verbs

/*
#cgo CFLAGS: -Wall -Wextra
#cgo LDFLAGS: -ldl
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// Built says whether this build can use RDMA devices.
const Built = true

// New is the fabric of this machine's RDMA devices. The library is loaded by the first
// method that needs it; until one has succeeded, each tries again.
func New() fabric.Fabric { return newFabric("libibverbs.so.1", "/sys/class/infiniband") }

func newFabric(library, sysfs string) *machine {
	return &machine{name: C.CString(library), sys: sysfsDir(sysfs)}
}

// machine is what this machine has.
type machine struct {
	name *C.char // of the library, never freed
	sys  sysfsDir

	mu      sync.Mutex
	library *C.struct_sv_library // nil: not loaded
}

// untruths are variables of the environment that have the library, or the vendor's own build of
// its plug-ins, pass over an error of the kernel when an object is destroyed. Destroy would be
// no fence.
var untruths = [...]string{"RDMAV_ALLOW_DISASSOC_DESTROY", "MLX4_DEVICE_FATAL_CLEANUP", "MLX5_DEVICE_FATAL_CLEANUP"}

// load finds the library. It is never unloaded: its plug-ins do not expect that.
func (m *machine) load() (*C.struct_sv_library, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.library != nil {
		return m.library, nil
	}
	for _, name := range untruths {
		if _, set := os.LookupEnv(name); set {
			return nil, fmt.Errorf("%w: %s is set, with which the library says that a queue pair is destroyed when it may not be: unset it", fabric.ErrNone, name)
		}
	}
	var text [C.SV_TEXT_BYTES]C.char
	if rc := C.sv_load(m.name, &m.library, &text[0], C.SV_TEXT_BYTES); rc != 0 {
		return nil, fmt.Errorf("%w: the library cannot be loaded: %s (Debian: install libibverbs1 and ibverbs-providers, RHEL: libibverbs)",
			fabric.ErrNone, C.GoString(&text[0]))
	}
	return m.library, nil
}

// devices is the library's list, which the caller frees if there is no error.
func (m *machine) devices() (list *C.struct_sv_list, count int, err error) {
	l, err := m.load()
	if err != nil {
		return nil, 0, err
	}
	var n C.int
	if rc := C.sv_list_devices(l, &list, &n); rc != 0 {
		return nil, 0, fmt.Errorf("%w: %s", fabric.ErrNone, m.sys.whyNoList(errno(int(rc))))
	}
	if n == 0 {
		C.sv_list_free(list)
		return nil, 0, fmt.Errorf("%w: %s", fabric.ErrNone, m.sys.whyNoDevice())
	}
	return list, int(n), nil
}

// open opens device number i of a list.
func open(list *C.struct_sv_list, i int) (*C.struct_sv_context, error) {
	var c *C.struct_sv_context
	if rc := C.sv_context_open(list, C.int(i), &c); rc != 0 {
		return nil, errors.New(whyNotOpened("/dev/infiniband/"+C.GoString(C.sv_list_file(list, C.int(i))), errno(int(rc))))
	}
	return c, nil
}

func (m *machine) Ports() ([]fabric.Port, error) {
	list, count, err := m.devices()
	if err != nil {
		return nil, err
	}
	defer C.sv_list_free(list)
	var ports []fabric.Port
	var refused []string
	for i := range count {
		name := C.GoString(C.sv_list_name(list, C.int(i)))
		of, err := m.portsOf(list, i, name)
		if err != nil {
			refused = append(refused, name+": "+err.Error())
			of = []fabric.Port{{Device: name, Number: 1, State: err.Error(), Node: m.sys.node(name)}}
		}
		ports = append(ports, of...)
	}
	if len(refused) == count {
		return nil, fmt.Errorf("%w: no device can be used: %s", fabric.ErrNone, strings.Join(refused, "; "))
	}
	slices.SortFunc(ports, func(a, b fabric.Port) int {
		return strings.Compare(fmt.Sprintf("%s:%03d", a.Device, a.Number), fmt.Sprintf("%s:%03d", b.Device, b.Number))
	})
	return ports, nil
}

// portsOf asks one device for its ports.
func (m *machine) portsOf(list *C.struct_sv_list, i int, name string) ([]fabric.Port, error) {
	c, err := open(list, i)
	if err != nil {
		return nil, err
	}
	defer C.sv_context_close(c)
	limits, err := limitsOf(c)
	if err != nil {
		return nil, err
	}
	gids, err := m.gids(c, name, int(limits.ports))
	if err != nil {
		return nil, err
	}
	var ports []fabric.Port
	for number := range uint8(limits.ports) {
		p := fabric.Port{Device: name, Number: number + 1, Node: m.sys.node(name), RateGbps: m.sys.rateGbps(name, number+1)}
		if err := refresh(c, &p, limits); err != nil {
			return nil, err
		}
		p.Limits.GPUMemory = C.sv_has_gpu(m.library) != 0
		p.GIDs = gids[p.Number]
		ports = append(ports, p)
	}
	return ports, nil
}

// Open opens a port.
func (m *machine) Open(port fabric.Port, gid fabric.GID) (fabric.Device, error) {
	list, count, err := m.devices()
	if err != nil {
		return nil, err
	}
	defer C.sv_list_free(list)
	for i := range count {
		if C.GoString(C.sv_list_name(list, C.int(i))) != port.Device {
			continue
		}
		c, err := open(list, i)
		if err != nil {
			return nil, fmt.Errorf("open RDMA device %s: %w", port.Device, err)
		}
		d, err := newDevice(c, port, gid)
		if err != nil {
			C.sv_context_close(c)
			return nil, fmt.Errorf("open RDMA port %s: %w", port.Name(), err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("%w: no device %s", fabric.ErrNone, port.Device)
}
