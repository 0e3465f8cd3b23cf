package mount

import (
	"slices"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
)

// reasonsOf wants every dropped item to have this reason, and no other item any.
func reasonsOf(t *testing.T, r client.Result, want client.Reason) {
	t.Helper()
	for i, s := range r.Statuses {
		got := client.Reason(0)
		if len(r.Reasons) > 0 {
			got = r.Reasons[i]
		}
		if s == client.Dropped && got != want || s != client.Dropped && got != 0 {
			t.Fatalf("item %d is %v for reason %v, want %v", i, s, got, want)
		}
	}
}

// TestPartialBlocks: a prompt's last block is stored if it is full, or if the operator
// wants partial ones, too.
func TestPartialBlocks(t *testing.T) {
	r := newRig(t, 2).start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 8)
	result := ns.Put(rows.blocks(0, 8), client.PutOptions{Partial: true}).Wait()
	wantAll(t, client.Result{Statuses: result.Statuses[:7]}, client.Stored)
	wantAll(t, client.Result{Statuses: result.Statuses[7:]}, client.Dropped)
	reasonsOf(t, result, client.ReasonPartial)
	if n := r.node.Stat().Spaces[0].NotFull; n != 1 {
		t.Errorf("%d partial blocks counted", n)
	}
	o := r.node.Options()
	o.Admission.PartialBlocks = true
	must(t, r.node.Update(o))
	wantAll(t, ns.Put(rows.blocks(0, 8), client.PutOptions{Partial: true}).Wait(), client.Stored, client.Present)
	o.Admission.PartialBlocks = false
	must(t, r.node.Update(o))
	wantAll(t, ns.Put(rows.blocks(0, 8), client.PutOptions{Partial: true}).Wait(), client.Present)
}

// TestSecondSight: a block is stored when it is put for the second time, a chain no
// further than it was put before, and what is here is present without more ado. A reload
// switches it on and off, for all or for one namespace.
func TestSecondSight(t *testing.T) {
	r := newRig(t, 2)
	r.options.Namespaces = map[string]node.NamespaceRule{"careful": {Admit: node.AdmitSecond}}
	r.start()
	c := r.dial()
	ns, other, rows := open(t, c, "careful"), open(t, c, "eager"), newPool(t, c, 12)
	rows.put(other, 0, 8, client.Stored)
	first := ns.Put(rows.blocks(0, 8), client.PutOptions{}).Wait()
	wantAll(t, first, client.Dropped)
	reasonsOf(t, first, client.ReasonFirstSight)
	longer := ns.Put(rows.blocks(0, 12), client.PutOptions{}).Wait()
	wantAll(t, client.Result{Statuses: longer.Statuses[:8]}, client.Stored)
	wantAll(t, client.Result{Statuses: longer.Statuses[8:]}, client.Dropped)
	reasonsOf(t, longer, client.ReasonFirstSight)
	wantAll(t, ns.Put(rows.blocks(0, 12), client.PutOptions{}).Wait(), client.Present, client.Stored)
	if st := r.node.Stat(); st.StoringNothing || st.Spaces[0].FirstSight != 12 {
		t.Errorf("%+v", st.Spaces)
	}
	o := r.node.Options()
	o.Admission.Admit, o.Namespaces = node.AdmitSecond, map[string]node.NamespaceRule{"careful": {Admit: node.AdmitAll}}
	must(t, r.node.Update(o))
	wantAll(t, other.Put(rows.blocks(100, 4), client.PutOptions{}).Wait(), client.Dropped)
	rows.put(ns, 100, 4, client.Stored)
}

// TestWriteBudget: over the budget puts are dropped at once, the end of a chain first,
// what is here and what could not be stored costs nothing, each namespace has its share,
// and a reload lifts the limit.
func TestWriteBudget(t *testing.T) {
	r := newRig(t, 1)
	r.options.Admission = node.Admission{WriteBytesPerSecond: 1, WriteBurst: 24 * time.Hour} // 86,400 bytes, half of them everybody's: 3 blocks, and one more when the namespace has got its first bytes
	r.options.Endurance = map[string]int64{r.dirs[0]: 1 << 40}
	r.start()
	c := r.dial()
	ns, rows := open(t, c, "a"), newPool(t, c, 8)
	result := ns.Put(rows.blocks(0, 8), client.PutOptions{}).Wait()
	stored := slices.Index(result.Statuses, client.Dropped)
	if stored != 3 && stored != 4 || slices.ContainsFunc(result.Statuses[stored:], func(s client.Status) bool { return s != client.Dropped }) {
		t.Fatalf("%v", result.Statuses)
	}
	reasonsOf(t, result, client.ReasonBudget)
	wantAll(t, ns.Put(rows.blocks(0, stored), client.PutOptions{}).Wait(), client.Present)
	st := r.node.Stat()
	d := st.Drives[0]
	if st.Spaces[0].OverBudget != uint64(8-stored) || d.DayBytes != int64(stored)*blockBytes || d.DayBudgetBytes != 86400 || d.BudgetLeftBytes != 0 {
		t.Errorf("%+v, %+v", st.Spaces[0], d)
	}
	o := r.node.Options()
	o.Admission.WriteBytesPerSecond = 0
	must(t, r.node.Update(o))
	wantAll(t, ns.Put(rows.blocks(0, 8), client.PutOptions{}).Wait(), client.Stored, client.Present)
	o.Admission.DrivesPerDay = -1
	if r.node.Update(o) == nil {
		t.Error("fewer than no writes per day")
	}
}
