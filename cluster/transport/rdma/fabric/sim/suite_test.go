package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/fabrictest"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
)

// TestSuite runs the suite of every fabric in virtual time, with delays and without.
func TestSuite(t *testing.T) {
	for name, c := range map[string]sim.Config{
		"slow":    {Seed: 1, DelayMin: time.Millisecond, DelayMax: 2 * time.Millisecond, BytesPerSecond: 1 << 30},
		"instant": {Seed: 2},
		"lazy":    {Seed: 4, DelayMax: 100 * time.Microsecond, BytesPerSecond: 1 << 30, SettleMax: 5 * time.Millisecond},
		"small":   {Seed: 3, DelayMax: 50 * time.Microsecond, BurstPackets: 1, BytesPerSecond: 10 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			var n *sim.Network
			fabrictest.Run(t, fabrictest.Rig{
				Pair: func(t *testing.T) (a, b fabric.Device) { return open(t, n, "a", 1), open(t, n, "b", 2) },
				Around: func(t *testing.T, test func(t *testing.T)) {
					synctest.Test(t, func(t *testing.T) {
						n = sim.New(c)
						defer n.Close()
						test(t)
					})
				},
			})
		})
	}
}

func open(t *testing.T, n *sim.Network, name string, host uint8) fabric.Device {
	t.Helper()
	m, err := n.Machine(name, sim.MachineConfig{Ports: sim.RoCE(host, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ports, err := m.Ports()
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Open(ports[0], ports[0].GIDs[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}
