package rdma

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// port is a port of an RDMA device that this node uses.
type port struct {
	index  int // in Transport.ports
	device fabric.Device
	info   fabric.Port
	gid    fabric.GID
	rails  atomic.Int64 // queue pairs there are, of both sides
	// broken: a queue pair could not be destroyed. No other is made here, since nobody
	// knows what the device still does.
	broken atomic.Bool
}

// endpoint is a queue pair's end as the other side must know it.
func (p *port) endpoint(e fabric.Endpoint) endpoint { return endpoint{e, prefixOf(p.gid)} }

// ErrPort says that a port of Options.Ports is not to be used.
var ErrPort = errors.New("no such RDMA port")

// Choice is a port, with the address to use on it.
type Choice struct {
	Port fabric.Port
	GID  fabric.GID
}

// Choose says which ports a transport with these names (Options.Ports) and this index of
// the address (Options.GIDIndex) uses, and why each of the others that it wanted is left
// out. An error says why none.
func Choose(ports []fabric.Port, names []string, gidIndex int) (chosen []Choice, left []error, err error) {
	if ports, err = namedPorts(ports, names); err != nil {
		return nil, nil, err
	}
	for _, p := range ports {
		gid, err := choose(&p, gidIndex)
		switch {
		case err != nil:
			left = append(left, fmt.Errorf("%s: %w", p.Name(), err))
		case len(chosen) == railsMax:
			left = append(left, fmt.Errorf("%s: %d ports are enough", p.Name(), railsMax))
		default:
			chosen = append(chosen, Choice{p, gid})
		}
	}
	return chosen, left, noneOf(len(chosen), left)
}

// Ports are those that are in use, each with its address.
func (t *Transport) Ports() []Choice {
	all := make([]Choice, len(t.ports))
	for i, p := range t.ports {
		all[i] = Choice{p.info, p.gid}
	}
	return all
}

// noneOf is the error of having no port.
func noneOf(n int, left []error) error {
	switch {
	case n > 0:
		return nil
	case len(left) == 0:
		return fmt.Errorf("%w: no device has a port", fabric.ErrNone)
	}
	return fmt.Errorf("no RDMA port is of use: %w", errors.Join(left...))
}

// choose says with which address a port is of use.
func choose(p *fabric.Port, gidIndex int) (fabric.GID, error) {
	switch {
	case !p.Active:
		return fabric.GID{}, fmt.Errorf("%w: the port is %s", fabric.ErrNone, p.State)
	case linesOf(p) < linesMin:
		return fabric.GID{}, fmt.Errorf("%w: a queue pair takes only %d receives", fabric.ErrUnsupported, p.Limits.ReceivesMax)
	}
	return chooseGID(p, gidIndex)
}

// openPorts opens the ports that the options choose, or as many of them as can be.
func openPorts(o *Options) ([]*port, error) {
	found, err := o.Fabric.Ports()
	if err != nil {
		return nil, err
	}
	chosen, left, err := Choose(found, o.Ports, o.GIDIndex)
	if err != nil {
		return nil, err
	}
	var ports []*port
	for _, c := range chosen {
		device, err := o.Fabric.Open(c.Port, c.GID)
		if err != nil {
			left = append(left, fmt.Errorf("%s: %w", c.Port.Name(), err))
			continue
		}
		ports = append(ports, &port{index: len(ports), device: device, info: c.Port, gid: c.GID})
	}
	if err := noneOf(len(ports), left); err != nil {
		return nil, err
	}
	for _, err := range left {
		o.Logger.Warn("an RDMA port is not used", "err", err)
	}
	return ports, nil
}

// namedPorts takes the ports that names choose, each a device or a device:port.
func namedPorts(found []fabric.Port, names []string) ([]fabric.Port, error) {
	if len(names) == 0 {
		return found, nil
	}
	var chosen []fabric.Port
	for _, name := range names {
		n := len(chosen)
		for _, p := range found {
			if (name == p.Device || name == p.Name()) && !slices.ContainsFunc(chosen, func(c fabric.Port) bool { return c.Name() == p.Name() }) {
				chosen = append(chosen, p)
			}
		}
		known := slices.ContainsFunc(found, func(p fabric.Port) bool { return name == p.Device || name == p.Name() })
		if len(chosen) == n && !known {
			var have []string
			for _, p := range found {
				have = append(have, p.Name())
			}
			return nil, fmt.Errorf("%w: %q, there are: %s", ErrPort, name, strings.Join(have, ", "))
		}
	}
	return chosen, nil
}

// chooseGID finds the address that a port speaks under.
func chooseGID(p *fabric.Port, index int) (fabric.GID, error) {
	best, rank := fabric.GID{}, 0
	for _, g := range p.GIDs {
		if r := rankGID(p, &g, index); r > rank {
			best, rank = g, r
		}
	}
	switch {
	case rank > 0:
		return best, nil
	case p.Ethernet && index > 0:
		for _, g := range p.GIDs {
			if g.Index == index {
				return best, fmt.Errorf("%w: address %d, %v, is of %v, want one of %v", fabric.ErrNone, index, g.Address.Unmap(), g.Type, fabric.RoCEv2)
			}
		}
		return best, fmt.Errorf("%w: no address with index %d", fabric.ErrNone, index)
	case p.Ethernet:
		return best, fmt.Errorf("%w: no RoCE v2 address: give the network interface an IP address", fabric.ErrNone)
	}
	return best, fmt.Errorf("%w: no InfiniBand address", fabric.ErrNone)
}

// rankGID is higher for a better address, 0 for one of no use.
func rankGID(p *fabric.Port, g *fabric.GID, index int) int {
	switch {
	case !p.Ethernet:
		if g.Type == fabric.InfiniBand {
			return 1
		}
	case g.Type != fabric.RoCEv2:
	case index > 0:
		if g.Index == index {
			return 1
		}
	case g.Address.Unmap().Is4():
		return 3
	case !g.Address.IsLinkLocalUnicast():
		return 2
	default:
		return 1
	}
	return 0
}
