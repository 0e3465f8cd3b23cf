package pool

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// keyring writes a keyring, and returns what goes into a configuration.
func (r *rig) keyring(n *node, keys ...string) string {
	r.t.Helper()
	path := n.path(".keys")
	if err := os.WriteFile(path, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("keyring = %q", path)
}

// Keys of 32 bytes, in base64.
const (
	keyOne = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	keyTwo = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="
)

// refused waits until a daemon has ended by itself, with a word.
func (n *node) refused(word string) {
	n.r.t.Helper()
	select {
	case <-n.ended:
	case <-time.After(time.Minute):
		n.r.t.Fatalf("%s still runs", n.name)
	}
	if n.err == nil || !strings.Contains(n.log.String(), word) {
		n.r.t.Errorf("%s ended with %v, and says nothing of %q:\n%s", n.name, n.err, word, tail(n.log.String(), 5))
	}
}

// outside wants a node to be no member for the others, while it runs or not.
func (r *rig) outside(stranger *node, during time.Duration, others ...*node) {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < during; time.Sleep(500 * time.Millisecond) {
		for _, n := range others {
			seen, err := n.members()
			if err != nil {
				r.t.Fatal(err)
			}
			for name := range seen {
				if name == stranger.name {
					r.t.Fatalf("%s has %s as a member", n.name, name)
				}
			}
		}
	}
}

// TestDuplicateName: the second node of a name refuses to run, and the first is unharmed.
func TestDuplicateName(t *testing.T) {
	r := newRig(t, 3, "")
	n := r.nodes
	r.start(n[:2]...)
	twin := n[2]
	twin.configure()
	// Its name is that of n1; its files keep their own.
	text, err := os.ReadFile(twin.path(".toml"))
	if err != nil {
		t.Fatal(err)
	}
	twin.startAs(strings.Replace(string(text), `name = "n2"`, `name = "n1"`, 1))
	twin.refused("n1")
	r.together(n[:2]...)
	twin.start()
	r.together(n...)
}

// TestForeignPool: a node of another pool that is given our addresses stays alone, and our
// nodes stay among themselves; so does one whose gossip has another key, or none.
func TestForeignPool(t *testing.T) {
	r := newRig(t, 4, "")
	n := r.nodes
	for i := range n {
		n[i].extra = r.keyring(n[i], keyOne)
	}
	r.start(n[:2]...)
	l := r.newLoad("pool")
	l.run(n[0], 1)
	n[2].poolID = "another"
	n[3].extra = r.keyring(n[3], keyTwo)
	n[2].start()
	n[3].start()
	r.outside(n[2], 5*time.Second, n[:2]...)
	r.outside(n[3], time.Second, n[:2]...)
	for _, stranger := range n[2:] {
		if !stranger.running() {
			t.Logf("%s refused to run: %s", stranger.name, tail(stranger.log.String(), 1))
			continue
		}
		var seen map[string]string
		r.eventually(stranger.name+" answers", func() (err error) { // it may not have started yet
			seen, err = stranger.members()
			return err
		})
		if len(seen) != 1 {
			t.Errorf("%s has the members %v", stranger.name, seen)
		}
		stranger.stop()
	}
	turned := n[0].must("pool", "members") + n[1].must("pool", "members")
	for _, word := range []string{"turned away", "another"} {
		if !strings.Contains(turned, word) {
			t.Errorf("nobody says %q of a stranger:\n%s", word, turned)
		}
	}
	l.end()
	n[3].extra = r.keyring(n[3], keyOne)
	n[3].start()
	r.together(n[0], n[1], n[3])
}

// TestKeyRotation changes the gossip's key under load, while a node is away that comes
// back with the new one.
func TestKeyRotation(t *testing.T) {
	r := newRig(t, 4, "")
	n := r.nodes
	for i := range n {
		n[i].extra = r.keyring(n[i], keyOne)
	}
	r.start(n...)
	l := r.newLoad("pool")
	for _, n := range n[:3] {
		l.run(n, 1)
	}
	n[3].stop()
	fresh := n[0].path(".new")
	if err := os.WriteFile(fresh, []byte(keyTwo+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stay := n[:3]
	for _, n := range stay {
		n.must("pool", "keys", "add", fresh)
	}
	prints := map[string]string{}
	var keys struct {
		Keys []struct {
			Fingerprint string
			Primary     bool
		}
	}
	if err := n[0].ask(&keys, "/v1/pool/keys"); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys {
		prints[fmt.Sprint(k.Primary)] = k.Fingerprint
	}
	if len(prints) != 2 {
		t.Fatalf("keys %+v", keys)
	}
	for _, step := range [][2]string{{"use", "false"}, {"remove", "true"}} {
		for _, n := range stay {
			r.eventually(n.name+": "+step[0], func() error {
				_, err := n.command("pool", "keys", step[0], prints[step[1]])
				return err
			})
		}
	}
	r.together(stay...)
	n[3].extra = r.keyring(n[3], keyTwo)
	n[3].start()
	r.together(n...)
	l.end()
	time.Sleep(settleTime)
	l.sweep(n)
	if here.slow() {
		return
	}
	for _, n := range stay {
		for _, word := range []string{"has failed", "failed as"} {
			if strings.Contains(n.log.String(), word) {
				t.Errorf("%s lost a member meanwhile:\n%s", n.name, tail(n.log.String(), 20))
			}
		}
	}
}
