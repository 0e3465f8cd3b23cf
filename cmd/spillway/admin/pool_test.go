package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/engine"
)

// fakePool answers what it is given, and notes what is done to it.
type fakePool struct {
	status  PoolStatus
	members member.Status
	keys    []member.KeyInfo
	events  *journal.Journal
	done    []string
	err     error
}

func (f *fakePool) Status() PoolStatus        { return f.status }
func (f *fakePool) Membership() member.Status { return f.members }
func (f *fakePool) Transport() tcp.Counts     { return tcp.Counts{Connections: 4, Foreign: 2} }
func (f *fakePool) Keys() []member.KeyInfo    { return f.keys }
func (f *fakePool) Events() *journal.Journal  { return f.events }
func (f *fakePool) note(format string, args ...any) (string, error) {
	what := fmt.Sprintf(format, args...)
	f.done = append(f.done, what)
	return what, f.err
}
func (f *fakePool) Drain() error {
	_, err := f.note("drain")
	return err
}
func (f *fakePool) Undrain() error {
	_, err := f.note("undrain")
	return err
}
func (f *fakePool) Forget(node string) (string, error) { return f.note("forget %s", node) }
func (f *fakePool) ChangeKeys(do, key string, force bool) (string, error) {
	return f.note("%s %s %t", do, key, force)
}
func (f *fakePool) PlainFor(d time.Duration) error {
	_, err := f.note("plain %v", d)
	return err
}
func (f *fakePool) Locate(_ context.Context, namespace string, group uint32, keys [][]byte) ([]Located, []string, error) {
	_, err := f.note("locate %s %d %q", namespace, group, keys)
	all := make([]Located, len(keys))
	for i := range all {
		all[i].Nodes = []string{"a"}
	}
	return all, []string{"a", "b"}, err
}

func newFake() *fakePool {
	return &fakePool{events: journal.New(nil), status: PoolStatus{Gossip: "g:1", Keyring: true, Stat: pool.Stat{Pool: "p", Name: "a", State: "active", Peers: []pool.PeerStat{{Name: "b", Member: true, Hits: 7, Breaker: "open"}, {Name: "b", Hits: 1}}}},
		members: member.Status{PoolID: "p", Self: member.Member{Name: "a", Self: true}, HealthScore: 2,
			Members:  []member.MemberStatus{{Member: member.Member{Name: "b", State: member.Draining}, Health: member.Suspect, Since: time.Minute, Legs: []member.LegStatus{{Leg: member.LegUDP, Error: "udp probe failing"}}}},
			Seeds:    []member.SeedStatus{{Seed: "s", Error: "no such host"}},
			Refusals: []member.RefusalStatus{{Reason: member.RefusedForeign, From: "x:1", Count: 3}}},
		keys: []member.KeyInfo{{Fingerprint: "0011", Primary: true, Bits: 256, Holders: []string{"a"}, Users: []string{"a"}}}}
}

// TestPool: what is asked is answered, and changes reach the pool as they were asked for.
func TestPool(t *testing.T) {
	r := newRig(t, node.Options{})
	r.want(404, "in no pool", "GET", "/v1/pool", "")
	r.serve(ServerOptions{Trusted: true})
	r.want(404, "in no pool", "POST", "/v1/pool/forget", `{"node": "b"}`)
	f := newFake()
	r.view.SetPool(f)

	r.want(200, `"type":"pool_status","instance":"`+r.node.Instance()+`","gossip":"g:1","keyring":true,"tls":false`, "GET", "/v1/pool", "")
	var m PoolMembers
	must(t, json.Unmarshal([]byte(r.want(200, `"pool_members"`, "GET", "/v1/pool/members", "")), &m))
	if len(m.Members) != 2 || !m.Members[0].Self || m.Members[1].Health != "suspect" || m.Members[1].State != "draining" || m.Members[1].Legs[0].Error == "" ||
		m.Members[1].SinceMS != 60000 || m.Seeds[0].Error == "" || m.TurnedAway[0].Count != 3 || m.Health != 2 {
		t.Errorf("%+v", m)
	}
	r.want(200, `"keys":[{"fingerprint":"0011","primary":true,"bits":256,"holders":["a"],"users":["a"]}]`, "GET", "/v1/pool/keys", "")
	r.want(200, `"blocks":[{"key":"hex:00ff","nodes":["a"]},{"key":"k","nodes":["a"]}],"asked":["a","b"]`, "GET", "/v1/pool/locate?namespace=n&group=7&key=hex:00ff&key=k", "")
	r.want(400, "1 to 256", "GET", "/v1/pool/locate?namespace=n", "")
	r.want(400, "hex:0", "GET", "/v1/pool/locate?namespace=n&key=hex:0", "")
	r.want(400, "group", "GET", "/v1/pool/locate?namespace=n&key=k&group=-1", "")

	r.want(200, "forget b", "POST", "/v1/pool/forget", `{"node": "b"}`)
	r.want(400, "bad request", "POST", "/v1/pool/forget", `{"nodes": "b"}`)
	r.want(200, "drains", "POST", "/v1/pool/drain", `{}`)
	r.want(200, "takes new blocks", "POST", "/v1/pool/undrain", `{}`)
	r.want(200, "use 0011 true", "POST", "/v1/pool/keys", `{"do": "use", "key": "0011", "force": true}`)
	r.want(200, "over TCP for 1m30s", "POST", "/v1/pool/way", `{"way": "tcp", "for": "90s"}`)
	r.want(200, "by RDMA where it is to be had", "POST", "/v1/pool/way", `{"way": "auto"}`)
	r.want(200, "until the daemon's next start", "POST", "/v1/pool/way", `{"way": "tcp"}`)
	for _, bad := range []string{`{"way": "rdma"}`, `{"way": "tcp", "for": "soon"}`, `{"way": "tcp", "for": "-1s"}`, `{"way": "auto", "for": "1s"}`, `{}`} {
		r.want(400, "want", "POST", "/v1/pool/way", bad)
	}
	if got := f.done[len(f.done)-3:]; !slices.Equal(got[:2], []string{"plain 1m30s", "plain 0s"}) {
		t.Errorf("%q", got)
	}
	for err, code := range map[error]int{ErrUnknown: 404, ErrState: 409, engine.ErrConfig: 400, engine.ErrNotFound: 404, errors.New("disk"): 500} {
		f.err = err
		r.want(code, err.Error(), "POST", "/v1/pool/forget", `{"node": "b"}`)
	}
	if want := `locate n 7 ["\x00\xff" "k"]`; f.done[0] != want || len(f.done) != 13 {
		t.Errorf("%q, want first %q", f.done, want)
	}
}

// TestTrust: on the ordinary address a change of the pool wants the token as any other.
func TestTrust(t *testing.T) {
	r := newRig(t, node.Options{})
	f := newFake()
	r.view.SetPool(f)
	r.want(403, "admin.token", "POST", "/v1/pool/forget", `{"node": "b"}`)
	r.view.Configure(Gate{}, "secret")
	r.want(401, "token", "POST", "/v1/pool/keys", `{}`)
	if len(f.done) != 0 {
		t.Errorf("done: %q", f.done)
	}
	r.want(200, "forget b", "POST", "/v1/pool/forget", `{"node": "b"}`, "Authorization", "Bearer secret")
	r.serve(ServerOptions{Trusted: true})
	r.want(200, "forget b", "POST", "/v1/pool/forget", `{"node": "b"}`)
	r.want(403, "", "POST", "/v1/pool/forget", `{"node": "b"}`, "Sec-Fetch-Site", "cross-site")
	r.want(403, "", "GET", "/v1/pool", "", "Host", "evil.example.org")
}

// TestPoolEvents: events come in pages, and who waits for the next hears of it at once.
func TestPoolEvents(t *testing.T) {
	r := newRig(t, node.Options{})
	f := newFake()
	r.view.SetPool(f)
	page := func(query string) (p PoolEvents) {
		t.Helper()
		must(t, json.Unmarshal([]byte(r.want(200, `"events":`, "GET", "/v1/pool/events"+query, "")), &p))
		return p
	}
	if p := page(""); len(p.Events) != 0 || p.Instance != r.node.Instance() {
		t.Errorf("%+v", p)
	}
	for i := range eventsMost + 5 {
		f.events.Add(journal.Joined, fmt.Sprint("n", i), "came")
	}
	p := page("")
	if len(p.Events) != eventsMost || p.Events[0].Number != 1 || p.Events[0].Kind != "joined" || p.Events[0].Type != "pool_event" {
		t.Errorf("%d, %+v", len(p.Events), p.Events[0])
	}
	last := p.Events[eventsMost-1].Number
	if p = page(fmt.Sprint("?after=", last)); len(p.Events) != 5 {
		t.Errorf("%d", len(p.Events))
	}
	heard := make(chan PoolEvents, 1)
	go func() {
		var p PoolEvents
		_, text := r.ask("GET", fmt.Sprintf("/v1/pool/events?after=%d&wait=30s", last+5), "")
		_ = json.NewDecoder(strings.NewReader(text)).Decode(&p)
		heard <- p
	}()
	f.events.Add(journal.Left, "n1", "went")
	if p = <-heard; len(p.Events) != 1 || p.Events[0].Text != "went" {
		t.Errorf("%+v", p)
	}
	r.want(400, "wait", "GET", "/v1/pool/events?wait=31s", "")
	r.want(400, "after", "GET", "/v1/pool/events?after=x", "")
	go func() {
		_, text := r.ask("GET", fmt.Sprintf("/v1/pool/events?after=%d&wait=30s", last+6), "")
		var p PoolEvents
		_ = json.NewDecoder(strings.NewReader(text)).Decode(&p)
		heard <- p
	}()
	r.view.End()
	if p = <-heard; len(p.Events) != 0 || p.Instance == "" {
		t.Errorf("at the end: %+v", p)
	}
}

// TestPoolMetrics: peers have series of their own, those that are gone have none, and no
// name comes twice.
func TestPoolMetrics(t *testing.T) {
	r := newRig(t, node.Options{})
	f := newFake()
	for i := range 2 * peersShown {
		f.status.Peers = append(f.status.Peers, pool.PeerStat{Name: fmt.Sprintf("c%03d", i), Member: true})
	}
	f.members.Members = append(f.members.Members, f.members.Members[0]) // its name again
	r.view.SetPool(f)
	all := r.series()
	for name, want := range map[string]string{`peer_get_blocks_total{peer="b",result="hit"}`: "7", `peer_breaker_open{peer="b"}`: "1", `peer_leg_failing{leg="udp",peer="b"}`: "1",
		`pool_state{state="active"}`: "1", `pool_state{state="joining"}`: "0", `pool_members{health="alive"}`: "1", `pool_members{health="suspect"}`: "2",
		`pool_data_refused_total{reason="foreign"}`: "2", `pool_slowness`: "2"} {
		if all[prefix+name] != want {
			t.Errorf("%s is %q, want %s", name, all[prefix+name], want)
		}
	}
	peers := 0
	for name := range all {
		if strings.HasPrefix(name, prefix+"peer_usable{") {
			peers++
		}
	}
	if peers != peersShown {
		t.Errorf("%d peers have series", peers)
	}
}
