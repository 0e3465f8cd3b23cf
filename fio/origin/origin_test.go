package origin

import (
	"strings"
	"testing"
)

func parse(t *testing.T, state string) *Counts {
	t.Helper()
	c, err := Parse([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// TestBetween: of what a daemon counts only what is new counts, node by node and way by way.
func TestBetween(t *testing.T) {
	before := parse(t, `{"instance": "i", "cpu_ns": 5, "namespaces": [{"hits": 10, "memory_hits": 1, "remote_hits": 7}],
		"pool": {"name": "a", "peers": [{"node": "2", "name": "b", "hits": 7, "read_bytes": 70, "way": {"name": "rdma", "blocks": 5, "bytes": 50}}, {"node": "9", "name": "z", "hits": 3}]}}`)
	after := parse(t, `{"instance": "i", "cpu_ns": 25, "namespaces": [{"hits": 25, "memory_hits": 3, "remote_hits": 18}, {"hits": 2, "remote_hits": 2}],
		"pool": {"name": "a", "peers": [{"node": "9", "name": "z", "hits": 3}, {"node": "3", "name": "c", "hits": 4, "wrong": 1, "way": {"name": "tcp", "why": "it has no device", "fallbacks": 0}},
			{"node": "2", "name": "b", "hits": 15, "read_bytes": 150, "late": 1, "way": {"name": "rdma", "blocks": 12, "bytes": 120, "fallbacks": 1}}]}}`)
	o := Between("/s", before, after)
	const want = "a (this node) 4 (of memory 2); b 8 (7 by rdma, 1 by tcp), 1 late; c 4 by tcp, 1 wrong: no rdma: it has no device"
	if got := o.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if o.Blocks != 17 || o.Here+o.Sum().Blocks != 16 || o.Sum().RDMA != 7 || o.Sum().TCP != 5 || o.Sum().Wrong != 1 || after.Since(before) != 20 {
		t.Errorf("%+v", o)
	}
	after.Instance = "j"
	if o := Between("/s", before, after); !strings.Contains(o.String(), "started anew") || after.Since(before) != 0 {
		t.Errorf("%v", o)
	}
}

// TestAlone: a daemon in no pool gives all itself, one with older counters all by TCP.
func TestAlone(t *testing.T) {
	if got := Between("/s", parse(t, `{}`), parse(t, `{"namespaces": [{"hits": 3}]}`)).String(); got != "this node 3" {
		t.Error(got)
	}
	if got := Between("/s", parse(t, `{"pool": {}}`), parse(t, `{"pool": {"name": "a", "peers": [{"node": "1", "name": "b", "hits": 2}]}}`)).String(); got != "a (this node) 0; b 2 by tcp" {
		t.Error(got)
	}
	if _, err := Parse([]byte("no")); err == nil {
		t.Error("no error of what is no state")
	}
}
