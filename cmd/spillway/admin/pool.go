package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// SocketSuffix behind the path of a daemon's socket is that of its operators': a node of a
// pool serves this interface there to its own user and root, who may change things
// without a token.
const SocketSuffix = ".admin"

// Pool is a node's part in a pool, as an operator sees and rules it. Errors match ErrUnknown,
// engine.ErrNotFound (of namespaces), engine.ErrConfig (the question is wrong) or ErrState.
type Pool interface {
	Status() PoolStatus
	Membership() member.Status
	Transport() tcp.Counts
	// Locate says which nodes have the blocks of these keys.
	Locate(ctx context.Context, namespace string, group uint32, keys [][]byte) (blocks []Located, asked []string, err error)
	// Drain has this node hand its blocks over, Undrain has it take new ones again.
	Drain() error
	Undrain() error
	// Forget has the whole pool forget a node that is gone, by name or beginning of its ID.
	Forget(node string) (what string, err error)
	// Keys are those of the gossip, the primary first; none: it is not encrypted.
	Keys() []member.KeyInfo
	// ChangeKeys adds a key, in base64, or uses or removes one, by its fingerprint; do is
	// "add", "use" or "remove".
	ChangeKeys(do, key string, force bool) (what string, err error)
	Events() *journal.Journal
	// PlainFor has the blocks that this node asks others for come over TCP for so long,
	// 0: no longer. ErrState where there is no other way.
	PlainFor(d time.Duration) error
}

// Errors of a Pool.
var (
	ErrState   = errors.New("not now")      // what is asked for does not go with the state that the pool is in
	ErrUnknown = errors.New("no such node") // nobody is called so
)

// errNoPool answers questions about a pool to a daemon that is in none.
var errNoPool = errors.New("this daemon is in no pool: give pool.id in its configuration, or serve --pool")

// PoolStatus is the JSON of /v1/pool.
type PoolStatus struct {
	Type         string   `json:"type"`                    // pool_status
	Instance     string   `json:"instance"`                // 32 hex digits, new at each start of the daemon
	Gossip       string   `json:"gossip"`                  // where other nodes reach its gossip: what they name as a seed
	Keyring      bool     `json:"keyring"`                 // the gossip is encrypted
	TLS          bool     `json:"tls"`                     // data connections are encrypted, and both sides show certificates
	Ports        []string `json:"rdma_ports,omitempty"`    // RDMA ports in use, each with its address; absent without RDMA
	TransportWhy string   `json:"transport_why,omitempty"` // why blocks do not come by RDMA, which the configuration asks for; absent: they do, or it does not
	Newest       uint64   `json:"newest"`                  // number of the newest event
	pool.Stat
}

// Located says where a block is.
type Located struct {
	Key   string   `json:"key"`   // as it was asked for
	Nodes []string `json:"nodes"` // names of the nodes that have it; none: it is nowhere, or its node does not answer
}

// PoolLocated is the JSON of /v1/pool/locate.
type PoolLocated struct {
	Type   string    `json:"type"`   // pool_locate
	Blocks []Located `json:"blocks"` // in the order in which they were asked for
	Asked  []string  `json:"asked"`  // names of the nodes that could be asked, this one first
}

// PoolKey is a key of the gossip, as this node has it.
type PoolKey struct {
	Fingerprint string   `json:"fingerprint"` // 16 hex digits, the same on every node; they give nothing away
	Primary     bool     `json:"primary"`     // encrypts what this node sends; what comes is tried with all of them
	Bits        int      `json:"bits"`        // 128, 192 or 256
	Holders     []string `json:"holders"`     // names of the members that have it, this node included
	Users       []string `json:"users"`       // of those that encrypt with it
}

// PoolKeys is the JSON of /v1/pool/keys.
type PoolKeys struct {
	Type string    `json:"type"` // pool_keys
	Keys []PoolKey `json:"keys"` // the primary first
}

// PoolEvents is the JSON of /v1/pool/events.
type PoolEvents struct {
	Instance string      `json:"instance"` // of the daemon; numbers begin anew with each
	Missed   uint64      `json:"missed"`   // events behind the asked number that are kept no more
	Events   []PoolEvent `json:"events"`   // the oldest first
}

// PoolEvent is one event of the pool, as this node saw it.
type PoolEvent struct {
	Type   string    `json:"type"`   // pool_event
	Number uint64    `json:"number"` // from 1, rising by 1
	Time   time.Time `json:"time"`   // by the clock of this node
	Kind   string    `json:"kind"`   // joined, left, failed, suspect, state, leg, broken, mended, foreign, conflict, merged, erased, drain, repair, forgot, keys or trouble
	Node   string    `json:"node"`   // name of the node that it is about; empty: this one, or none
	Text   string    `json:"text"`   // what happened
	Times  int       `json:"times"`  // how often
}

// Bounds of one question for events.
const (
	eventsMost    = 1000
	eventsWaitMax = 30 * time.Second // within writeTime
)

// poolRoutes adds what a pool answers.
func (v *View) poolRoutes(mux *http.ServeMux, o ServerOptions) {
	mux.HandleFunc("GET /v1/pool", v.ofPool(func(p Pool, _ *http.Request) (any, error) { return v.poolStatus(p), nil }))
	mux.HandleFunc("GET /v1/pool/members", v.ofPool(v.poolMembers))
	mux.HandleFunc("GET /v1/pool/locate", v.ofPool(locate))
	mux.HandleFunc("GET /v1/pool/keys", v.ofPool(func(p Pool, _ *http.Request) (any, error) {
		return keysOfPool(p.Keys()), nil
	}))
	mux.HandleFunc("GET /v1/pool/events", v.ofPool(v.poolEvents))
	change := func(path string, do func(Pool, []byte) (string, error)) {
		mux.HandleFunc("POST /v1/pool/"+path, v.changing(o, func(_ *node.Node, body []byte) (string, error) {
			if p := v.pool.Load(); p != nil {
				return do(*p, body)
			}
			return "", errNoPool
		}))
	}
	change("drain", func(p Pool, _ []byte) (string, error) { return "this node drains", p.Drain() })
	change("undrain", func(p Pool, _ []byte) (string, error) { return "this node takes new blocks", p.Undrain() })
	change("forget", forget)
	change("keys", changeKeys)
	change("way", way)
}

// ofPool wraps what answers a question about the pool.
func (v *View) ofPool(answer func(Pool, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := v.pool.Load()
		if p == nil {
			fail(w, codeOf(errNoPool), errNoPool.Error())
			return
		}
		body, err := answer(*p, r)
		if err != nil {
			fail(w, codeOf(err), err.Error())
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // what it took to find does not count
		reply(w, body)
	}
}

// poolStatus is what the daemon knows beside.
func (v *View) poolStatus(p Pool) PoolStatus {
	s := p.Status()
	s.Type, s.Newest, s.Instance = "pool_status", p.Events().Newest(), v.instance()
	return s
}

// instance is the daemon's; empty while it starts.
func (v *View) instance() string {
	if n := v.node.Load(); n != nil {
		return n.Instance()
	}
	return ""
}

func locate(p Pool, r *http.Request) (any, error) {
	q := r.URL.Query()
	group, err := uintOf(q, "group", 32)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(q["key"])
	if err != nil {
		return nil, err
	}
	blocks, asked, err := p.Locate(r.Context(), q.Get("namespace"), uint32(group), keys)
	for i := range blocks {
		blocks[i].Key = q["key"][i]
	}
	return PoolLocated{"pool_locate", blocks, asked}, err
}

// locateMost bounds the keys of one question.
const locateMost = 256

// keysOf reads keys as commands take them: as text, or hex: and hex digits.
func keysOf(texts []string) (keys [][]byte, err error) {
	if len(texts) == 0 || len(texts) > locateMost {
		return nil, fmt.Errorf("%w: %d keys, want 1 to %d", errRequest, len(texts), locateMost)
	}
	for _, text := range texts {
		key := []byte(text)
		if digits, isHex := strings.CutPrefix(text, "hex:"); isHex {
			if key, err = hex.DecodeString(digits); err != nil {
				return nil, fmt.Errorf("%w: key %q: %w", errRequest, text, err)
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// uintOf is a number of a query; absent: 0.
func uintOf(q url.Values, name string, bits int) (n uint64, err error) {
	if text := q.Get(name); text != "" {
		if n, err = strconv.ParseUint(text, 10, bits); err != nil {
			return 0, fmt.Errorf("%w: %s %q: want a whole number", errRequest, name, text)
		}
	}
	return n, nil
}

func (v *View) poolEvents(p Pool, r *http.Request) (any, error) {
	q := r.URL.Query()
	after, err := uintOf(q, "after", 64)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > eventsWaitMax {
			return nil, fmt.Errorf("%w: wait %q: want 0s to %v", errRequest, text, eventsWaitMax)
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := p.Events().Changed()
		events, missed := p.Events().After(after, eventsMost)
		if len(events) > 0 || wait == 0 {
			return v.eventsOf(events, missed), nil
		}
		select {
		case <-changed:
		case <-timer.C:
			wait = 0
		case <-v.ending:
			wait = 0
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func (v *View) eventsOf(events []journal.Event, missed uint64) PoolEvents {
	all := PoolEvents{v.instance(), missed, make([]PoolEvent, len(events))}
	for i := range events {
		e := &events[i]
		all.Events[i] = PoolEvent{"pool_event", e.Number, e.Time, string(e.Kind), e.Node, e.Text, e.Times}
	}
	return all
}

func keysOfPool(keys []member.KeyInfo) PoolKeys {
	all := PoolKeys{"pool_keys", make([]PoolKey, len(keys))}
	for i := range keys {
		k := &keys[i]
		all.Keys[i] = PoolKey{k.Fingerprint, k.Primary, k.Bits, append([]string{}, k.Holders...), append([]string{}, k.Users...)}
	}
	return all
}

func forget(p Pool, body []byte) (string, error) {
	var ask struct {
		Node string `json:"node"`
	}
	if err := strict(body, &ask); err != nil {
		return "", err
	}
	return p.Forget(ask.Node)
}

func changeKeys(p Pool, body []byte) (string, error) {
	var ask struct {
		Do    string `json:"do"`
		Key   string `json:"key"`
		Force bool   `json:"force"`
	}
	if err := strict(body, &ask); err != nil {
		return "", err
	}
	return p.ChangeKeys(ask.Do, ask.Key, ask.Force)
}
