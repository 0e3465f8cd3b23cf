package admin

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
)

// HotMax bounds the blocks of one answer.
const HotMax = 100_000

// Hot is the JSON of /v1/namespaces/hot.
type Hot struct {
	Blocks []HotBlock `json:"blocks"` // the hottest first
}

// HotBlock is one block that is worth keeping, and warming elsewhere.
type HotBlock struct {
	Type       string `json:"type"`       // hot
	Key        string `json:"key"`        // hex: and its bytes in hex digits, as commands take it
	Group      uint32 `json:"group"`      // cache group of the key
	Depth      uint32 `json:"depth"`      // in the chain, root 0
	Importance uint8  `json:"importance"` // as its client said
	Uses       uint8  `json:"uses"`       // since its put, as far as the eviction policy counts; 0: it does not
	IdleMS     int64  `json:"idle_ms"`    // since its latest use; 0: the policy does not know
}

// HotBlocks makes them of entries.
func HotBlocks(entries []engine.Entry) []HotBlock {
	all := make([]HotBlock, len(entries))
	for i := range entries {
		e := &entries[i]
		all[i] = HotBlock{"hot", "hex:" + hex.EncodeToString(e.Key.Bytes), e.Key.Group, e.Depth, e.Importance, e.Uses, e.Idle.Milliseconds()}
	}
	return all
}

// asking wraps what answers a question to a node.
func (v *View) asking(answer func(n *node.Node, query url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := v.node.Load()
		if n == nil {
			fail(w, http.StatusServiceUnavailable, errNotReady.Error())
			return
		}
		body, err := answer(n, r.URL.Query())
		if err != nil {
			fail(w, codeOf(err), err.Error())
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // what it took to find does not count
		reply(w, body)
	}
}

func (v *View) hot(n *node.Node, query url.Values) (any, error) {
	count := 1000
	if text := query.Get("count"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 1 || count > HotMax {
			return nil, fmt.Errorf("%w: count %q: want 1 to %d", errRequest, text, HotMax)
		}
	}
	entries, err := n.Hottest(query.Get("namespace"), count)
	return Hot{HotBlocks(entries)}, err
}

func (v *View) descriptor(n *node.Node, query url.Values) (any, error) {
	return n.Descriptor(query.Get("namespace"))
}
