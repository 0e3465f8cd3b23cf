package daemon

import (
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// carriers are what takes this node's blocks to and from others.
type carriers struct {
	control *tcp.Transport      // calls, and blocks where there is nothing better
	best    transport.Transport // the control, or rdma over it: this one is closed
	why     string              // why it is not rdma, which the configuration asks for; empty: it is, or nobody asks
	ports   []string            // of RDMA, in use
}

// openCarriers listens, and puts RDMA over it if that is wanted and to be had. A machine
// without it is told so in one line, and goes on without.
func (d *daemon) openCarriers() (*carriers, error) {
	p := &d.config.Pool
	control, err := tcp.Listen(d.transportOptions())
	if err != nil {
		return nil, fmt.Errorf("pool.bind %s: %w", p.Bind, err)
	}
	c := &carriers{control: control, best: control}
	if p.Transport != config.TransportRDMA {
		return c, nil
	}
	over, why := d.openRDMA(control)
	if why != "" {
		c.why = why
		d.log.Warn("blocks of other nodes come by tcp, not by rdma: "+why, "docs", "docs/rdma.md")
		return c, nil
	}
	c.best = over
	for _, port := range over.Ports() {
		c.ports = append(c.ports, fmt.Sprintf("%s %v", port.Port.Name(), port.GID.Address.Unmap()))
	}
	d.log.Info("blocks of other nodes come by rdma where they have it, too", "ports", c.ports)
	return c, nil
}

// openRDMA puts RDMA over the control, or says why not; then the control is as it was.
func (d *daemon) openRDMA(control *tcp.Transport) (over *rdma.Transport, why string) {
	if why := d.config.Pool.RDMARefused(); why != "" {
		return nil, why
	}
	o := d.config.Pool.RDMAOptions()
	o.Control, o.Fabric, o.Logger = control, d.fabric(), d.log
	over, err := rdma.New(o)
	if err != nil {
		return nil, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return over, ""
}

// fabric is that of this machine, but for tests.
func (d *daemon) fabric() fabric.Fabric {
	if d.o.Fabric != nil {
		return d.o.Fabric
	}
	return verbs.New()
}
