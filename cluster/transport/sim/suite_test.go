package sim_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

// TestSuite runs the suite of every transport in virtual time, over a network with delays.
func TestSuite(t *testing.T) {
	var network *sim.Network
	var number atomic.Int32
	transporttest.Run(t, transporttest.Rig{
		New: func(t *testing.T) transport.Transport {
			d, err := network.Node(fmt.Sprint("node", number.Add(1)))
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		Around: func(t *testing.T, test func(t *testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				network = sim.New(sim.Config{Seed: 1, BytesInFlightMax: 256 << 20,
					Shape: sim.Shape{DelayMin: time.Millisecond, DelayMax: 2 * time.Millisecond, BytesPerSecond: 10 << 30}})
				defer network.Close()
				test(t)
			})
		},
	})
}
