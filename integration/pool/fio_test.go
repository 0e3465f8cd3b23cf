package pool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestFio: a benchmark through a node says how many blocks came from the other one, all by
// the transport of the ground; where there are two it compares them, where there is one it
// refuses to.
func TestFio(t *testing.T) {
	r := newRig(t, 2, `placement = "local"`)
	owner, asker := r.nodes[0], r.nodes[1]
	r.start(owner, asker)
	const blocks = 32
	job := func(more ...string) []string {
		return append([]string{"fio", "--name=blocks", "--ioengine=pool", "--bs=64KiB", "--size=2MiB", "--iodepth=4", "--verify=xxhash", "--quiet"}, more...)
	}
	owner.must(job("--rw=write", "--do_verify=0")...)
	r.eventually("blocks come by "+here.way(), func() error { // a session may not be up yet
		out, err := asker.command(job("--rw=read", "--output-format=json")...)
		if err == nil {
			err = allBy(out, blocks)
		}
		return err
	})
	out, err := asker.command(job("--rw=read", "--compare-transports=1", "--compare-daemon="+owner.socket())...)
	if here.way() == "tcp" {
		if err == nil || !strings.Contains(err.Error(), "there is only TCP here") {
			t.Errorf("%v, %s", err, out)
		}
		return
	}
	if err != nil || !strings.Contains(out, "RDMA against TCP, 3 turns") {
		t.Fatalf("%v, %s", err, out)
	}
	t.Log(out[strings.Index(out, "RDMA against TCP"):])
}

// allBy wants a result to say that all of so many blocks came from other nodes, by the
// ground's transport.
func allBy(document string, blocks uint64) error {
	var d struct {
		Jobs []struct {
			Spillway struct {
				Origins []struct {
					Here  uint64
					Peers []struct{ RDMA, TCP uint64 }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		return err
	}
	var by [2]uint64
	for _, o := range d.Jobs[0].Spillway.Origins {
		for _, p := range o.Peers {
			by[0], by[1] = by[0]+p.RDMA, by[1]+p.TCP
		}
	}
	if here.way() == "tcp" {
		by[0], by[1] = by[1], by[0]
	}
	if by[0] != blocks || by[1] != 0 {
		return fmt.Errorf("%d blocks came by %s, %d otherwise", by[0], here.way(), by[1])
	}
	return nil
}
