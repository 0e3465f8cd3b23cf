// Package admin is the operator's view of a daemon over HTTP: metrics for
// Prometheus, health, and a small JSON interface. It listens where the configuration
// says, by default nowhere.
//
//	GET  /metrics                 Prometheus (docs/metrics.md)
//	GET  /healthz, /readyz        200 or 503, and why
//	GET  /v1/stat                 State
//	GET  /v1/namespaces           Namespaces
//	GET  /v1/namespaces/hot         Hot, of ?namespace=NAME&count=N
//	GET  /v1/namespaces/descriptor  the descriptor of ?namespace=NAME
//	POST /v1/namespaces/drop      {"namespace": "name or ID"}
//	POST /v1/namespaces/quota     {"namespace": "name or ID", "quota": "10GiB" or "none"}
//	GET  /v1/clients              Clients
//	POST /v1/clients/disconnect   {"client": 7}
//	GET  /v1/pool                 PoolStatus; of a node of a pool, as all that follow
//	GET  /v1/pool/members         PoolMembers
//	GET  /v1/pool/locate          PoolLocated, of ?namespace=NAME&group=N&key=KEY&key=...
//	GET  /v1/pool/keys            PoolKeys
//	GET  /v1/pool/events          PoolEvents, of ?after=NUMBER&wait=TIME
//	POST /v1/pool/drain, undrain  {}
//	POST /v1/pool/forget          {"node": "name, or beginning of its ID"}
//	POST /v1/pool/keys            {"do": "add", "key": "base64"}, or "use" and "remove" with a fingerprint
//	POST /v1/pool/way             {"way": "tcp", "for": "30s"}, or {"way": "auto"}
//	GET  /debug/pprof/            Go's profiles, if allowed
//
// A POST shows the token of the configuration; without one nothing can be changed.
package admin

import (
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/fio"
)

// Gate is what block reads are measured against; zero fields: nothing.
type Gate struct {
	Budget          time.Duration // that the P99 of block reads must stay under
	ComputePerToken time.Duration // of a prompt, on a GPU
}

// View is what a daemon shows of itself. Its methods may be called from many
// goroutines.
type View struct {
	version string
	node    atomic.Pointer[node.Node] // nil until the stores are open
	ready   atomic.Bool
	phase   atomic.Pointer[string] // what it does while it is not ready
	missing atomic.Pointer[[]string]
	gate    atomic.Pointer[Gate]
	token   atomic.Pointer[string]
	pool    atomic.Pointer[Pool] // nil: there is none, or not yet
	ending  chan struct{}        // closed by End
	now     func() time.Time
}

// NewView makes the view of a daemon that starts.
func NewView(version string) *View {
	v := &View{version: version, now: time.Now, ending: make(chan struct{})}
	v.SetPhase("starting")
	v.missing.Store(new([]string))
	v.Configure(Gate{}, "")
	return v
}

// SetPhase says what a daemon does that is not ready.
func (v *View) SetPhase(phase string) {
	v.phase.Store(&phase)
	v.ready.Store(false)
}

// SetNode shows a node whose stores are open; missing are the directories of those
// that are not, and need not be.
func (v *View) SetNode(n *node.Node, missing []string) {
	v.missing.Store(&missing)
	v.node.Store(n)
}

// SetPool shows a node's part in a pool.
func (v *View) SetPool(p Pool) { v.pool.Store(&p) }

// End has questions that wait for something answered, once and for all.
func (v *View) End() { close(v.ending) }

// SetReady says that clients are served.
func (v *View) SetReady() { v.ready.Store(true) }

// Configure takes the gate, and the token that changes need; empty: no changes.
func (v *View) Configure(g Gate, token string) {
	v.gate.Store(&g)
	v.token.Store(&token)
}

// State is the JSON of /v1/stat and of top.
type State struct {
	Type    string     `json:"type"`                     // stat
	Version string     `json:"version,omitempty"`        // of the daemon
	Ready   bool       `json:"ready"`                    // clients are served
	Missing []string   `json:"missing_stores,omitempty"` // directories of optional stores that could not be opened
	Gate    *GateState `json:"gate,omitempty"`           // block reads of the last minute against the budget; absent over the socket
	NoRDMA  string     `json:"transport_why,omitempty"`  // why blocks of other nodes do not come by RDMA, which the configuration asks for; absent over the socket
	node.Stat
}

// GateState is the verdict on the block reads of the last minute.
type GateState struct {
	BudgetNS     int64   `json:"budget_ns"`     // 0: none
	Verdict      string  `json:"verdict"`       // pass, over budget, cannot judge; no budget
	P99NS        int64   `json:"p99_ns"`        // of the last minute
	LowNS        int64   `json:"p99_low_ns"`    // lower end of its 95 % interval
	HighNS       int64   `json:"p99_high_ns"`   // upper end of its 95 % interval
	Reads        uint64  `json:"reads"`         // blocks measured
	Reason       string  `json:"reason"`        // the verdict in words
	SavedTokens  uint64  `json:"saved_tokens"`  // tokens of prefix hits, where the descriptor says how many a block has
	SavedSeconds float64 `json:"saved_seconds"` // estimate of GPU seconds saved: saved_tokens times the time of one
}

// noBudget is the verdict without a budget.
const noBudget = "no budget"

// State takes a snapshot.
func (v *View) State() State {
	s := State{Type: "stat", Version: v.version, Ready: v.ready.Load(), Missing: *v.missing.Load()}
	if n := v.node.Load(); n != nil {
		s.Stat = n.Stat()
		s.Gate = v.judge(n, &s.Stat)
	}
	if p := v.pool.Load(); p != nil {
		s.NoRDMA = (*p).Status().TransportWhy
	}
	return s
}

func (v *View) judge(n *node.Node, st *node.Stat) *GateState {
	g := v.gate.Load()
	s := &GateState{BudgetNS: g.Budget.Nanoseconds(), Verdict: noBudget, P99NS: st.Recent.P99NS, Reads: st.Recent.Reads, SavedTokens: savedTokens(st)}
	perToken := g.ComputePerToken
	if perToken == 0 {
		perToken = g.Budget
	}
	s.SavedSeconds = float64(s.SavedTokens) * perToken.Seconds()
	if g.Budget > 0 {
		recent := n.Recent(v.now())
		verdict := fio.Judge(recent.Reads, s.BudgetNS)
		s.Verdict, s.P99NS, s.LowNS, s.HighNS = verdict.Judgement.String(), verdict.P99NS, verdict.LowNS, verdict.HighNS
		s.Reads, s.Reason = verdict.Samples, verdict.Reason
	}
	return s
}

// savedTokens are those of all prefix hits: a hit behind a miss saves no computing.
func savedTokens(st *node.Stat) (tokens uint64) {
	for i := range st.Spaces {
		tokens += st.Spaces[i].PrefixHits * uint64(st.Spaces[i].TokensPerBlock)
	}
	return tokens
}
