package membertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
)

func node(n byte) member.Member {
	return member.Member{ID: member.ID{n}, Name: string('a' + n - 1), State: member.Active}
}

// seen is what a view says, in a line.
func seen(v *View) string {
	var out []string
	for _, m := range v.Members() {
		s := m.Name + fmt.Sprint(m.FreeBytes)
		if m.Self {
			s += "*"
		}
		if m.Suspect {
			s += "?"
		}
		if m.State != member.Active {
			s += "(" + m.State.String() + ")"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func want(t *testing.T, v *View, what string) {
	t.Helper()
	if got := seen(v); got != what {
		t.Errorf("sees %q, want %q", got, what)
	}
}

func TestWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(1, time.Second, 2*time.Second)
		settle := func() { time.Sleep(2 * time.Second); synctest.Wait() }
		a := w.Join(node(1))
		changed := a.Changed()
		b := w.Join(node(2))
		want(t, a, "a0*")
		want(t, b, "a0 b0*")
		<-changed
		want(t, a, "a0* b0")

		b.Announce(member.Draining, 10, 7)
		want(t, b, "a0 b7*(draining)")
		want(t, a, "a0* b0")
		settle()
		want(t, a, "a0* b7(draining)")

		w.See(a.self, b.self, Suspect)
		want(t, a, "a0* b7?(draining)")
		w.See(a.self, b.self, Absent)
		want(t, a, "a0*")
		w.See(a.self, b.self, True)

		w.Deafen(a.self, b.self, true)
		b.Announce(member.Active, 10, 8)
		settle()
		want(t, a, "a0* b7(draining)")
		w.Deafen(a.self, b.self, false)
		settle()
		want(t, a, "a0* b8")

		w.Part(b.self)
		settle()
		want(t, a, "a0*")
		again := w.Join(node(2))
		b.Announce(member.Active, 1, 1) // of the dead process: nobody hears it
		settle()
		want(t, a, "a0* b0")
		want(t, again, "a0 b0*")

		w.See(a.self, b.self, Absent)
		w.Deafen(b.self, a.self, true)
		a.Announce(member.Leaving, 0, 0)
		w.Settle()
		settle()
		want(t, a, "a0*(leaving) b0")
		want(t, again, "a0(leaving) b0*")
	})
}
