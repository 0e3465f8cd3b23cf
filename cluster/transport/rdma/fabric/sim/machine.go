package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// MachineConfig describes a machine.
type MachineConfig struct {
	Ports           []fabric.Port // in order; RoCE makes some
	MemoryLockBytes int64         // that the process may register in all; 0: without bound
}

// Machine is a machine with a process on it.
type Machine struct {
	net  *Network
	name string
	c    MachineConfig

	// guarded by Network.mu
	ports        []*port
	dead         bool
	stopped      bool
	frozen       bool
	destroyFails bool
	locked       int64 // bytes registered
}

var _ fabric.Fabric = (*Machine)(nil)

// port is one port of a machine.
type port struct {
	m       *Machine
	info    fabric.Port
	devices []*device
	queues  map[uint32]*queuePair // by number
	busy    time.Time             // until then it sends what was given to it before
}

// RoCE describes ports of a machine: as many devices with one port each, sim0 and so on,
// with an address of the network 10.0.<device>.0/24, whose last byte is host.
func RoCE(host uint8, devices int) []fabric.Port {
	ports := make([]fabric.Port, devices)
	for i := range ports {
		v4 := netip.AddrFrom4([4]byte{10, 0, byte(i), host})
		local := netip.AddrFrom16([16]byte{0xfe, 0x80, 8: 2, 14: byte(i), 15: host})
		address := netip.AddrFrom16(v4.As16())
		near := netip.PrefixFrom(address, 96+24).Masked()
		name := fmt.Sprintf("eth%d", i)
		ports[i] = fabric.Port{Device: fmt.Sprintf("sim%d", i), Number: 1, Ethernet: true, Active: true, State: "active",
			MTUBytes: 4096, RateGbps: 100, Node: -1, Limits: Limits(), GIDs: []fabric.GID{
				{Index: 0, Type: fabric.RoCEv1, Address: local, Interface: name},
				{Index: 1, Type: fabric.RoCEv2, Address: address, Interface: name, Networks: []netip.Prefix{near}}}}
	}
	return ports
}

// Limits are those of RoCE's ports.
func Limits() fabric.Limits {
	return fabric.Limits{MessageBytesMax: 8 << 20, SendsMax: 1 << 14, ReceivesMax: 1 << 14, RegionBytesMax: 1 << 40, InlineBytesMax: 236}
}

// Machine adds a machine, or starts a process on one whose process is dead: its ports are as
// they were then, and c's are not looked at.
func (n *Network) Machine(name string, c MachineConfig) (*Machine, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &Machine{net: n, name: name, c: c}
	if old := n.machines[name]; old != nil {
		if !old.dead {
			return nil, fmt.Errorf("machine %q has a process", name)
		}
		m.c.Ports = nil
		for _, p := range old.ports {
			m.c.Ports = append(m.c.Ports, p.info)
		}
	}
	for _, info := range m.c.Ports {
		p := &port{m: m, info: info, queues: map[uint32]*queuePair{}}
		m.ports = append(m.ports, p)
		for _, g := range info.GIDs {
			if other := n.ports[g.Address]; other != nil && other.m.name != name {
				return nil, fmt.Errorf("machines %q and %q have the same address %s", name, other.m.name, g.Address)
			}
			n.ports[g.Address] = p
		}
	}
	n.machines[name] = m
	return m, nil
}

// Ports lists the ports.
func (m *Machine) Ports() ([]fabric.Port, error) {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	if len(m.ports) == 0 {
		return nil, fmt.Errorf("%w: the machine has no device", fabric.ErrNone)
	}
	var all []fabric.Port
	for _, p := range m.ports {
		all = append(all, p.info)
	}
	return all, nil
}

func (m *Machine) port(name string) *port {
	for _, p := range m.ports {
		if p.info.Name() == name {
			return p
		}
	}
	return nil
}

// Open opens a port.
func (m *Machine) Open(info fabric.Port, gid fabric.GID) (fabric.Device, error) {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	p := m.port(info.Name())
	switch {
	case m.dead:
		return nil, errDead
	case p == nil:
		return nil, fmt.Errorf("%w: no port %s", fabric.ErrNone, info.Name())
	case !p.info.Active:
		return nil, fmt.Errorf("port %s is %s", info.Name(), p.info.State)
	}
	at := slices.IndexFunc(p.info.GIDs, func(g fabric.GID) bool { return g.Index == gid.Index && g.Address == gid.Address })
	if at < 0 {
		return nil, fmt.Errorf("port %s has no address %s at %d", info.Name(), gid.Address, gid.Index)
	}
	d := &device{port: p, gid: p.info.GIDs[at], remote: map[uint32]*region{}, local: map[uint32]*region{}}
	p.devices = append(p.devices, d)
	return d, nil
}

// errDead ends what a dead process asks for.
var errDead = errors.New("the process is dead")

// continueLocked lets a stopped process take part again.
func (m *Machine) continueLocked() {
	m.stopped = false
	for _, p := range m.ports {
		for _, q := range p.queues {
			q.receives, q.heldReceives = q.receives+q.heldReceives, 0
			for _, l := range q.lists {
				l.held = false
			}
			if q.state == failed {
				q.flushReceivesLocked(fabric.Flushed, codeFlushed)
			}
			q.received.signal()
			q.sent.signal()
		}
	}
}

func (m *Machine) failDeviceLocked(name string) {
	for _, p := range m.ports {
		if p.info.Device != name {
			continue
		}
		for _, q := range p.queues {
			q.failLocked(fabric.OtherFault, codeDevice)
			q.flushReceivesLocked(fabric.Flushed, codeFlushed)
		}
	}
}
