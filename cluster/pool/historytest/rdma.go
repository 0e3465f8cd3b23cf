package historytest

import (
	"log/slog"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
)

// carrier has blocks of gets come by RDMA, over a second simulated network that the same
// troubles befall. The zero carrier has none: everything goes over the one.
type carrier struct {
	net *fabricsim.Network // nil: no RDMA
}

// blockBreaks is how likely a burst of packets breaks its queue pair, in every other history:
// that can happen though nobody died.
const blockBreaks = 0.01

func newCarrier(h *History, log *logBook) carrier {
	if !h.RDMA {
		return carrier{}
	}
	c := &h.Config
	k := carrier{fabricsim.New(fabricsim.Config{Seed: h.Seed, DelayMin: c.DelayMax / 8, DelayMax: c.DelayMax / 2, BytesPerSecond: c.BytesPerSecond, BurstPackets: 1,
		Trace: func(format string, args ...any) { log.printf("  rdma: "+format, args...) }})}
	if h.Seed%2 == 1 {
		k.net.SetBreaks(blockBreaks)
	}
	return k
}

// start makes the transport of a node's new life. In every fifth history the first node has
// no device.
func (k carrier) start(n *node, control transport.Transport, log *slog.Logger) (transport.Transport, error) {
	if k.net == nil || n.r.h.Seed%5 == 0 && n.number == 0 {
		return control, nil
	}
	n.device.Store(true)
	m, err := k.net.Machine(n.address, fabricsim.MachineConfig{Ports: fabricsim.RoCE(uint8(n.number+1), 1+int(n.r.h.Seed%2))})
	if err != nil {
		return nil, err
	}
	return rdma.New(rdma.Options{Control: control, Fabric: m, LandingBytes: 1 << 20, FenceTime: 50 * time.Millisecond, OpenTime: 500 * time.Millisecond,
		PauseMin: 10 * time.Millisecond, PauseMax: time.Second, Logger: log})
}

// each calls f for a node that has a device.
func (k carrier) each(f func(net *fabricsim.Network, address string), nodes ...*node) {
	for _, n := range nodes {
		if n.device.Load() {
			f(k.net, n.address)
		}
	}
}

// count takes in how blocks have come in a life that ends.
func (l *life) count() {
	for _, p := range l.process.Pool().Stat().Peers {
		l.n.r.model.note(func(f *Figures) {
			f.RDMABlocks += int(p.Way.Blocks)
			f.RDMAFences += int(p.Way.Fences)
			f.RDMAFailures += int(p.Way.Failures)
		})
	}
}

func (k carrier) freeze(n *node) { k.each((*fabricsim.Network).Freeze, n) }
func (k carrier) thaw(n *node)   { k.each((*fabricsim.Network).Thaw, n) }
func (k carrier) kill(n *node)   { k.each((*fabricsim.Network).Kill, n) }

func (k carrier) cut(from, to *node) {
	k.each(func(net *fabricsim.Network, address string) { net.Cut(address, to.address) }, from)
}

func (k carrier) mend(from, to *node) {
	k.each(func(net *fabricsim.Network, address string) { net.Heal(address, to.address) }, from)
}

func (k carrier) healAll() {
	if k.net != nil {
		k.net.HealAll()
	}
}

func (k carrier) close() {
	if k.net != nil {
		k.net.Close()
	}
}

// know makes the memory of block i of a call known to the node's transport, if it is one of
// half of all. It stays so, as that of a client does, however often blocks come there.
func (l *life) know(i int, memory []byte) {
	if r, ok := l.transport.(transport.Registrar); ok && i%2 == 1 {
		_, _ = r.RegisterMemory(memory, transport.Destination) // the node may have died
	}
}
