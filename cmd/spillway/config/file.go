// Package config is the daemon's configuration: a TOML file, strictly read. Every
// key that it has is a field here, and docs/configuration.md is made from them.
//
// A field with the tag reload:"yes" may change while the daemon runs.
package config

import (
	"time"

	"github.com/spillway-kv/spillway/client"
)

// File is a whole configuration.
type File struct {
	Socket     Socket      `toml:"socket"`                 // where clients connect
	Stores     []Store     `toml:"store"`                  // one for each drive, at least one
	Limits     Limits      `toml:"limits"`                 // bounds; those of connections hold for new ones
	Puts       Puts        `toml:"puts"`                   // what may wait for each store
	Admission  Admission   `toml:"admission"`              // which puts are worth a write
	Memory     Memory      `toml:"memory"`                 // the memory tier above the stores
	Namespaces []Namespace `toml:"namespace" reload:"yes"` // rules for namespaces, by name
	Gate       Gate        `toml:"gate"`                   // what block reads are measured against
	Pool       Pool        `toml:"pool"`                   // this node's part in a pool of nodes; none without an id
	Admin      Admin       `toml:"admin"`                  // metrics, health and the operator's HTTP interface
	Log        Log         `toml:"log"`                    // what the daemon writes to its standard error
}

// Socket is where clients connect.
type Socket struct {
	Path      string   `toml:"path"`                    // of the Unix socket; its folder must be there
	Mode      Mode     `toml:"mode"`                    // permissions, as chmod writes them; to connect one needs to write
	Group     string   `toml:"group"`                   // that the socket is given to, by name or number; empty: the daemon's
	AllowUIDs []uint32 `toml:"allow_uids" reload:"yes"` // users that may connect; none: whom the permissions let
	Token     Secret   `toml:"token" reload:"yes"`      // that every client must show; empty: none
	TokenFile string   `toml:"token_file" reload:"yes"` // a file with the token, in place of it; read at start and reload
}

// Store is one directory on one drive.
type Store struct {
	Dir           string   `toml:"dir"`            // the store's directory; the one above it must be there
	Capacity      Size     `toml:"capacity"`       // most that it may take on disk, everything counted; needed for a new store, 0 keeps what an old one has
	Endurance     Size     `toml:"endurance"`      // bytes that the drive may still be written: its TBW less what SMART counts; for a projection of its days; 0: unknown
	Optional      bool     `toml:"optional"`       // start without it if it cannot be opened or is sick; its blocks are misses
	Policy        string   `toml:"policy"`         // which block goes when room is needed: hazard, lru or s3fifo
	IOEngine      string   `toml:"ioengine"`       // how transfers are made: auto, uring or psync
	Rings         int      `toml:"rings"`          // io_urings, 1 to 16; more than 1 only where one core cannot verify what the drive delivers
	QueueDepth    int      `toml:"queue_depth"`    // transfers that the drive runs at once
	ScrubRate     Size     `toml:"scrub_rate"`     // bytes a second at which all blocks are read and proven, over and over; 0: never
	IndexMemory   Size     `toml:"index_memory"`   // most memory for the index, about 100 bytes a block
	FrameMemory   Size     `toml:"frame_memory"`   // private memory for transfers that cannot go straight; at least two blocks
	SyncInterval  Duration `toml:"sync_interval"`  // longest time that a put which is not durable stays unsynced
	LeaseMax      Duration `toml:"lease_max"`      // longest lease
	LeaseShare    float64  `toml:"lease_share"`    // most of a namespace's blocks under lease, 0 to 1
	LockWait      Duration `toml:"lock_wait"`      // how long to retry a directory in use
	BufferedIO    bool     `toml:"buffered_io"`    // allow buffered I/O where the file system has no direct I/O
	AnyFilesystem bool     `toml:"any_filesystem"` // allow file systems other than ext4 and XFS
}

// Limits bound what clients may take.
type Limits struct {
	Connections  int      `toml:"connections" reload:"yes"`            // clients at once
	Requests     int      `toml:"requests" reload:"yes"`               // in flight of one connection
	Namespaces   int      `toml:"namespaces" reload:"yes"`             // open of one connection
	Regions      int      `toml:"regions" reload:"yes"`                // registered of one connection
	RegionBytes  Size     `toml:"region_bytes" reload:"yes"`           // of the regions of one connection together
	Keys         int      `toml:"keys" reload:"yes"`                   // of one request
	Leases       int      `toml:"leases" reload:"yes"`                 // held by one connection; a match beyond finds without leasing
	OnlyListed   bool     `toml:"only_listed_namespaces" reload:"yes"` // refuse namespaces without a [[namespace]]
	Patience     Duration `toml:"patience" reload:"yes"`               // deadline of requests that give none
	StallTime    Duration `toml:"stall_time" reload:"yes"`             // how long a client may leave its answers unread
	StopTime     Duration `toml:"stop_time" reload:"yes"`              // how long requests under way may take when the daemon stops
	PinnedMemory bool     `toml:"pinned_memory"`                       // register clients' memory with the drives, and with RDMA devices if the pool has some: transfers cost less, the memory stays locked
}

// Puts bound the puts that wait for each store; one beyond is dropped at once.
type Puts struct {
	QueueBytes Size     `toml:"queue_bytes" reload:"yes"` // waiting and running
	QueueTime  Duration `toml:"queue_time" reload:"yes"`  // that they would wait at the measured rate
}

// Admission says which puts are worth a write; the others are dropped at once.
type Admission struct {
	Admit         string   `toml:"admit" reload:"yes"`                // all, or second: a block is stored when it is put for the second time
	PartialBlocks bool     `toml:"partial_blocks" reload:"yes"`       // store blocks that clients call partial too: the end of a prompt within a block
	WriteRate     Size     `toml:"write_rate" reload:"yes"`           // bytes a second that each store may be written over time; 0: no bound
	WriteBurst    Duration `toml:"write_burst" reload:"yes"`          // what accrues within this time may be written at once
	DrivesPerDay  float64  `toml:"drive_writes_per_day" reload:"yes"` // capacities that each store may be written per day (DWPD); 0: no bound
	WearBurst     Duration `toml:"wear_burst" reload:"yes"`           // what accrues within this time may be written at once
}

// Memory is the tier above the stores: page-locked memory that keeps blocks.
type Memory struct {
	DRAMBytes Size   `toml:"dram_bytes"` // of memory taken at the start; 0: no memory tier
	Mode      string `toml:"mode"`       // exclusive keeps what is fetched ahead and what several clients read, inclusive all that is read; off: no memory tier
	NUMA      string `toml:"numa"`       // nodes that the memory comes from: auto (near the GPUs, else the drives), any, or numbers such as 0,1
	Prefetch  string `toml:"prefetch"`   // what is fetched into it ahead: model (whole chains before they come back), window (the blocks behind those being read), none (only what clients name)
	Verify    bool   `toml:"verify"`     // check a block's bytes each time they are answered from memory
}

// Namespace is a rule for the namespaces of one name.
type Namespace struct {
	Name            string   `toml:"name" reload:"yes"`              // as clients call it
	Token           Secret   `toml:"token" reload:"yes"`             // that clients must show to open it; empty: none
	TokenFile       string   `toml:"token_file" reload:"yes"`        // a file with the token, in place of it
	Share           int      `toml:"share" reload:"yes"`             // weight among namespaces when a drive is busy, 1 to 1000
	ComputePerToken Duration `toml:"compute_per_token" reload:"yes"` // time to compute one token of a prompt of its model, for clients that ask whether loading is worth it; 0: by gate.gpu, or as gate.compute_per_token says
	WriteShare      int      `toml:"write_share" reload:"yes"`       // weight among namespaces in the write budget, 1 to 1000; 0: as share
	Admit           string   `toml:"admit" reload:"yes"`             // all or second; empty: as in [admission]
	Quota           Quota    `toml:"quota" reload:"yes"`             // most on disk, over all stores together; none takes a quota away; without it, what was set before stays
}

// Gate is what block reads are measured against.
type Gate struct {
	Budget          Duration `toml:"budget" reload:"yes"`            // time that the P99 of block reads must stay under, such as a model's time per output token; 0: none
	ComputePerToken Duration `toml:"compute_per_token" reload:"yes"` // a GPU's time to compute one token of a prompt, for the estimate of GPU seconds saved (0: by gate.model, else the budget, which is far more, as prompts are computed many tokens at a time), and to tell clients that ask whether loading is worth it
	GPU             string   `toml:"gpu" reload:"yes"`               // that models run on, such as H200; then the time to compute a prefix is the roofline of the model that a namespace's descriptor names, which grows with the prefix, where there is no number for the namespace
	Model           string   `toml:"model" reload:"yes"`             // that runs where a descriptor names none that is known, such as Llama-3.1-8B, in place of compute_per_token; config check says what it comes to
	TP              int      `toml:"tp" reload:"yes"`                // GPUs that share each layer of that model
}

// Admin is the operator's HTTP interface.
type Admin struct {
	Address     string `toml:"address"`                 // host and port, such as 127.0.0.1:9470; empty: none
	AllowRemote bool   `toml:"allow_remote"`            // allow an address that other machines reach
	Token       Secret `toml:"token" reload:"yes"`      // that a request must show (Authorization: Bearer) to change anything; empty: nothing can be changed
	TokenFile   string `toml:"token_file" reload:"yes"` // a file with the token, in place of it
	Pprof       bool   `toml:"pprof"`                   // serve Go's profiles under /debug/pprof/
}

// Log is what the daemon writes.
type Log struct {
	Level  string `toml:"level" reload:"yes"` // the least that is written: debug, info, warn or error
	Format string `toml:"format"`             // text or json
}

// DefaultSocket is where the socket is unless the configuration says otherwise.
const DefaultSocket = client.DefaultPath

// defaultStopTime is within what systemd and Kubernetes wait by default.
const defaultStopTime = 10 * time.Second
