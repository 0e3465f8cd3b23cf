package load

import (
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/tiering/trace"
	"github.com/zeebo/xxh3"
)

// KVIOConfig says how an I/O trace of the MLPerf KV-cache benchmark is replayed.
type KVIOConfig struct {
	Part       Part
	Speed      float64 // as in ReplayConfig
	BlockBytes int
	// AllTiers replays what the benchmark kept in GPU and host memory, too.
	AllTiers bool
}

// KVIO feeds the lines of an I/O trace: each is an entry, cut into blocks, that
// is read or written whole. Block i of an entry is named by a hash of the entry's
// key and i.
type KVIO struct {
	reader *trace.KVIOReader
	config KVIOConfig
	pace   pace
	lastNS int64
	err    error
}

// NewKVIO makes a feed of reader, which stays the caller's to close.
func NewKVIO(reader *trace.KVIOReader, c KVIOConfig) *KVIO {
	return &KVIO{reader: reader, config: c, pace: pace(c.Speed)}
}

const (
	tierNVMe       = 2
	entryBlocksMax = 1 << 20
)

// NextRequest is that of Feed.
func (k *KVIO) NextRequest(_ int64, q *Request) Answer {
	for k.err == nil {
		line, err := k.reader.Next()
		if err != nil {
			k.err = err
			break
		}
		key := xxh3.Hash(line.Key)
		if line.Tier != tierNVMe && !k.config.AllTiers || !k.config.Part.has(key) {
			continue
		}
		k.lastNS = max(k.lastNS, line.TimeNS) // lines may be a little out of order
		q.Mode, q.Session, q.InputTokens, q.OutputTokens = LoadOnly, 0, 0, 0
		if line.Write {
			q.Mode = PutOnly
		}
		q.StartNS = k.pace.startNS(float64(k.lastNS))
		count := (line.Bytes-1)/int64(k.config.BlockBytes) + 1
		if count > entryBlocksMax {
			k.err = fmt.Errorf("entry %.100s of the trace has %d bytes: more than %d blocks of %d bytes, use larger blocks",
				line.Key, line.Bytes, entryBlocksMax, k.config.BlockBytes)
			break
		}
		for i := range count {
			q.Blocks = append(q.Blocks, mix64(key+uint64(i)))
		}
		return Ready
	}
	return End
}

// EndRequest does nothing: a trace's times are fixed.
func (k *KVIO) EndRequest(int, int64) {}

// Err is why the trace ended early.
func (k *KVIO) Err() error {
	if k.err == io.EOF {
		return nil
	}
	return k.err
}
