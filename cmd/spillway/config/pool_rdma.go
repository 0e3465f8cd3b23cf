package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/fio/units"
)

// rdmaPort is a device, or one of its ports.
var rdmaPort = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}(:[1-9][0-9]{0,2})?$`)

// rdmaPortsMax is how many ports the transport uses at most.
const rdmaPortsMax = 8

func (p *Pool) checkRDMA() *keyError {
	if p.Transport != TransportTCP && p.Transport != TransportRDMA {
		return wrong("transport", "is %q, want tcp or rdma", p.Transport)
	}
	if len(p.RDMAPorts) > rdmaPortsMax {
		return wrong("rdma_ports", "names %d, at most %d ports are used: give those", len(p.RDMAPorts), rdmaPortsMax)
	}
	seen := map[string]bool{}
	for _, port := range p.RDMAPorts {
		if !rdmaPort.MatchString(port) {
			return wrong("rdma_ports", "has %q: want a device, or one of its ports, such as mlx5_0 or mlx5_0:1 (spillway doctor lists them)", port)
		}
		if seen[port] {
			return wrong("rdma_ports", "has %q twice", port)
		}
		seen[port] = true
	}
	for _, port := range p.RDMAPorts {
		if device, _, ofOne := strings.Cut(port, ":"); ofOne && seen[device] {
			return wrong("rdma_ports", "has %q twice: %q names all ports of the device", port, device)
		}
	}
	for _, n := range []struct {
		key              string
		value, low, high int
	}{{"rdma_gid_index", p.RDMAGIDIndex, 0, math.MaxUint8}, {"rdma_traffic_class", p.RDMATrafficClass, 0, math.MaxUint8}, {"rdma_service_level", p.RDMAServiceLevel, 0, 15},
		{"rdma_timeout", p.RDMATimeout, 8, 22}} {
		if n.value < n.low || n.value > n.high {
			return wrong(n.key, "is %d, want %d to %d", n.value, n.low, n.high)
		}
	}
	if p.RDMARetries < 1 || p.RDMARetries > 6 {
		return wrong("rdma_retries", "is %d, want 1 to 6: with 7 some devices never notice that a peer is gone", p.RDMARetries)
	}
	if p.RDMALanding < 1<<20 || p.RDMALanding > 64<<30 {
		return wrong("rdma_landing", "is %s, want 1MiB to 64GiB", exactBytes(int64(p.RDMALanding)))
	}
	return nil
}

// RDMARefused says why blocks do not come by RDMA with this configuration, whatever the
// machine has, and what to do; empty: they may, or nobody wants it.
func (p *Pool) RDMARefused() string {
	if p.Transport == TransportRDMA && p.TLS() && !p.RDMAPlain {
		return "data connections are encrypted, and RDMA is not: set pool.rdma_plain = true if the RDMA network may carry blocks in plain"
	}
	return ""
}

// RDMAOptions are those of the rdma transport, without its control, fabric and logger.
func (p *Pool) RDMAOptions() rdma.Options {
	return rdma.Options{Ports: p.RDMAPorts, GIDIndex: p.RDMAGIDIndex, LandingBytes: int64(p.RDMALanding),
		Path: fabric.Path{Timeout: uint8(p.RDMATimeout), Retries: uint8(p.RDMARetries), TrafficClass: uint8(p.RDMATrafficClass), ServiceLevel: uint8(p.RDMAServiceLevel)}}
}

// explainTransport says how blocks come from other nodes; empty: by tcp, as ever.
func (p *Pool) explainTransport() string {
	if p.Transport != TransportRDMA {
		return ""
	}
	if why := p.RDMARefused(); why != "" {
		return "blocks come by tcp: " + why
	}
	ports := "all RDMA ports that are up"
	if len(p.RDMAPorts) > 0 {
		ports = "RDMA ports " + strings.Join(p.RDMAPorts, ", ")
	}
	class := ""
	if p.RDMATrafficClass > 0 {
		class = fmt.Sprintf("; on RoCE in class %d, DSCP %d", p.RDMATrafficClass, p.RDMATrafficClass>>2)
	}
	text := fmt.Sprintf("blocks come by RDMA over %s, as far as this machine and the other nodes have it, else by tcp; spillway doctor says what this machine has; twice rdma_landing, %s, is locked for it beside clients' memory and the memory tier%s",
		ports, units.Bytes(2*int64(p.RDMALanding)), class)
	if p.TLS() {
		text += "; rdma_plain: they travel neither encrypted nor authenticated: that network must be trusted"
	}
	return text
}

// RDMABytes is the memory that is registered with each RDMA port at the least: where blocks
// land and are sent from, the memory tier, and what blocks go through on their way from the
// stores to peers. Clients' comes on top.
func (f *File) RDMABytes() int64 {
	need := node.LockNeed{Ports: 1, FrameBytes: node.Options{}.WithDefaults().PeerFrameBytes, TransportBytes: 2 * int64(f.Pool.RDMALanding)}
	if o, ok := f.Memory.Tier(); ok {
		need.TierBytes = o.Bytes
	}
	return need.Bytes()
}
