// Package fabrictest holds the one suite that every fabric.Fabric passes.
//
// It works with two devices that reach each other, and proves every byte. Memory that a fence
// has given back is filled with a pattern at once, and must hold it to the end.
//
// Beyond the words of package fabric it fixes these points:
//   - Nothing can be posted after Destroy, nor before Connect, receives excepted: an error.
//   - After a failed completion a post is refused with ErrClosed, or its completion is not OK.
//   - The write that may not be made, and those of its list behind it, change nothing; those
//     before it have been made. Receives posted at the other side are flushed then.
//   - ErrFull posts nothing, and the queue pair goes on working.
package fabrictest

import (
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// Rig makes devices of one kind.
type Rig struct {
	// Pair opens two devices that reach each other. The suite closes them.
	Pair func(t *testing.T) (a, b fabric.Device)
	// Around runs a test, perhaps in a bubble; nil: as it is. Nothing here needs the
	// wall clock.
	Around func(t *testing.T, test func(t *testing.T))
	// Path of all queue pairs; zero: timeout 14, 5 retries, hop limit 64.
	Path fabric.Path
	// Rounds is how often the fences are tried; 0: 8.
	Rounds int
}

// patience is how long a completion may take that must come.
const patience = 2 * time.Minute

// Run puts a kind of fabric through the whole suite.
func Run(t *testing.T, r Rig) {
	if r.Path == (fabric.Path{}) {
		r.Path = fabric.Path{Timeout: 14, Retries: 5, HopLimit: 64}
	}
	if r.Rounds == 0 {
		r.Rounds = 8
	}
	if r.Around == nil {
		r.Around = func(t *testing.T, test func(t *testing.T)) { test(t) }
	}
	for _, c := range []struct {
		name string
		test func(k *kit)
	}{
		{"Devices", testDevices},
		{"Regions", testRegions},
		{"Order", testOrder},
		{"Sizes", testSizes},
		{"Inline", testInline},
		{"Immediates", testImmediates},
		{"Lists", testLists},
		{"SendsFull", testSendsFull},
		{"ReceivesFull", testReceivesFull},
		{"NoReceive", testNoReceive},
		{"Denied", testDenied},
		{"NotWritable", testNotWritable},
		{"LocalFault", testLocalFault},
		{"FenceDestroy", testFenceDestroy},
		{"FenceDeregister", testFenceDeregister},
		{"FenceSource", testFenceSource},
		{"Woken", testWoken},
		{"Destroyed", testDestroyed},
		{"PeerGone", testPeerGone},
		{"ConnectGarbage", testConnectGarbage},
		{"Many", testMany},
		{"Together", testTogether},
		{"DestroyTogether", testDestroyTogether},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.Around(t, func(t *testing.T) {
				k := &kit{T: t, rig: r}
				defer k.end()
				k.a, k.b = r.Pair(t)
				c.test(k)
			})
		})
	}
}

// kit is what one test works with.
type kit struct {
	*testing.T
	rig      Rig
	a, b     fabric.Device
	sides    []*side
	memories []*memory
}

// end gives everything back, in the order that a device wants.
func (k *kit) end() {
	for _, s := range k.sides {
		s.destroy()
	}
	for _, m := range k.memories {
		m.deregister()
		m.unmap()
	}
	for _, d := range []fabric.Device{k.a, k.b} {
		if d == nil {
			continue
		}
		if err := d.Close(); err != nil {
			k.Errorf("Close: %v", err)
		}
	}
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}
