package historytest

import (
	"context"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
)

// Setup is what a node begins with: a store that it uses and does not close, and the
// options of its pool.
type Setup struct {
	Store *engine.Store
	Pool  pool.Options
}

// Start makes a node and its pool, which serves peers from then on. Nothing of it runs
// after an error.
type Start func(s Setup) (Process, error)

// Process is a node in one of its lives. All methods may be called from many goroutines.
type Process interface {
	// Open opens a namespace as a client does.
	Open(d engine.Descriptor) (Space, error)
	// Pool is the node's part in the pool.
	Pool() *pool.Pool
	// Close ends the node and its pool: nothing of either runs after it.
	Close(ctx context.Context) error
}

// Space is a namespace as the clients of a node use it. Every call gives each key one
// status. All methods may be called from many goroutines.
type Space interface {
	// Get loads blocks, those of other nodes included. A Late one's dst is in use until
	// released is called for it; of the others it is the caller's again.
	Get(keys []engine.Key, dst [][]byte, o Call, released func(i int)) []engine.Status
	// Put stores blocks, wherever the pool wants them; src as dst in Get.
	Put(keys []engine.Key, src [][]byte, o Call, released func(i int)) []engine.Status
	// Match says which blocks are anywhere in the pool.
	Match(keys []engine.Key) []bool
	// Here says which blocks are on the node itself.
	Here(keys []engine.Key) []bool
	// Delete and Drop erase in the whole pool; missing as pool.Pool has it.
	Delete(keys []engine.Key) (missing int, err error)
	Drop() (missing int, err error)
	// Incarnation is what the node has.
	Incarnation() uint32
}

// Call governs one Get or Put.
type Call struct {
	Deadline time.Time // zero: none
	Bounce   bool      // of a Get
	Durable  bool      // of a Put
	Depth    int       // of the first block of a Put
}
