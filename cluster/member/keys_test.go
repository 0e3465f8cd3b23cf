package member

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// keyText is key n of a size, in base64.
func keyText(n byte, bytesEach int) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, bytesEach))
}

func printOf(n byte, bytesEach int) string {
	return fingerprintOf(bytes.Repeat([]byte{n}, bytesEach)).String()
}

// keyFile is a new file with keys of 32 bytes.
func keyFile(t *testing.T, keys ...byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, keys...)
	return path
}

func writeKeys(t *testing.T, path string, keys ...byte) {
	t.Helper()
	text := "# keys\n\n"
	for _, k := range keys {
		text += keyText(k, 32) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func inFile(path string) func(*Options) { return func(o *Options) { o.KeyFile = path } }

// prints are the fingerprints in force, the primary first.
func prints(k *Keys) (list []string) {
	for _, i := range k.List() {
		list = append(list, i.Fingerprint)
	}
	return list
}

// TestRotation (P40): new key, new sender, old key gone, on each node in turn, while
// members announce all the time. Nobody is lost, and an absent node comes with the new key.
func TestRotation(t *testing.T) {
	t.Parallel()
	var files []string
	all := pool(t, 3, calm, func(o *Options) {
		o.KeyFile = keyFile(t, 1)
		files = append(files, o.KeyFile)
	})
	load := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(1); ; i++ {
			select {
			case <-load:
				return
			default:
			}
			all[i%3].Announce(Active, 1000, i%1000)
			<-all[0].Changed()
		}
	}()
	next := printOf(2, 32)
	for i, g := range all {
		if err := g.Keys().Use(next, false); !errors.Is(err, ErrKey) {
			t.Errorf("using a key that is not there: %v", err)
		}
		if f, err := g.Keys().Add(keyText(2, 32)); err != nil || f != next {
			t.Fatalf("add: %q, %v", f, err)
		}
		if i == 0 {
			if err := g.Keys().Use(next, false); !errors.Is(err, ErrKeyMissing) || !strings.Contains(err.Error(), "n2, n3") {
				t.Errorf("using a key that others lack: %v", err)
			}
		}
	}
	for _, g := range all {
		until(t, "all have the new key, as "+g.o.Name+" hears", func() bool { return g.Keys().Use(next, false) == nil })
		if err := all[0].Keys().Remove(printOf(1, 32), false); err == nil {
			t.Errorf("the old key is removed while it is in use")
		}
		if g == all[2] {
			break
		}
	}
	for _, g := range all {
		until(t, "nobody uses the old key, as "+g.o.Name+" hears", func() bool { return g.Keys().Remove(printOf(1, 32), false) == nil })
		if got := prints(g.Keys()); !slices.Equal(got, []string{next}) {
			t.Errorf("%s has %v", g.o.Name, got)
		}
	}
	close(load)
	all[0].Announce(Draining, 2, 2) // wakes the load
	<-done
	all[1].Announce(Draining, 1, 1)
	until(t, "what is said under the new key is heard", func() bool { m, _ := memberOf(all[2], "n2"); return m.State == Draining })
	for _, g := range all {
		if c := g.Status().Counters; c.Failed != 0 || c.Left != 0 {
			t.Errorf("%s lost %d, %d left", g.o.Name, c.Failed, c.Left)
		}
	}
	for _, f := range files {
		if keys, err := readKeyFile(f); err != nil || len(keys) != 1 || fingerprintOf(keys[0]).String() != next {
			t.Errorf("%s has %d keys, %v", f, len(keys), err)
		}
	}
	late := node(t, "n4", calm, seeds(all[1]), inFile(keyFile(t, 2)))
	agree(t, append(all, late)...)
}

// TestRotationByFile: the same by files and Reload.
func TestRotationByFile(t *testing.T) {
	t.Parallel()
	var files []string
	all := pool(t, 2, calm, func(o *Options) {
		o.KeyFile = keyFile(t, 1)
		files = append(files, o.KeyFile)
	})
	for _, keys := range [][]byte{{1, 2, 3}, {3, 1, 2}, {3, 2}, {4, 3}, {4}} {
		for i, g := range all {
			writeKeys(t, files[i], keys...)
			if err := g.Keys().Reload(); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, k := range keys {
				want = append(want, printOf(k, 32))
			}
			got := prints(g.Keys())
			if got[0] != want[0] {
				t.Errorf("%s sends with %s, want %s", g.o.Name, got[0], want[0])
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s has %v, want %v", g.o.Name, got, want)
			}
		}
		all[0].Announce(Active, int64(keys[0]), int64(len(keys)))
		until(t, "they hear each other", func() bool {
			m, _ := memberOf(all[1], "n1")
			return m.CapacityBytes == int64(keys[0]) && m.FreeBytes == int64(len(keys)) && m.Keys[0] == printOf(keys[0], 32)
		})
	}
	agree(t, all...)
}

// TestWrongKey (P40): both sides say what is wrong, and with whom.
func TestWrongKey(t *testing.T) {
	for name, key := range map[string]string{"another key": keyText(2, 32), "no key": "", "another size": keyText(1, 16)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := node(t, "n1", func(o *Options) { o.Key = keyText(1, 32) })
			other := node(t, "n2", func(o *Options) { o.Key = key }, seeds(one))
			until(t, "the one without the key says so", func() bool {
				s := other.Status().Seeds[0]
				return strings.HasPrefix(s.Error, one.advertise.String()+": key mismatch")
			})
			until(t, "the other one counts it", func() bool {
				s := one.Status()
				return s.Counters.KeyMismatch > 0 && len(s.Refusals) > 0 && s.Refusals[0].Reason == RefusedKey && s.Refusals[0].From == "127.0.0.1"
			})
			agree(t, one)
			agree(t, other)
		})
	}
}

// TestBadKeys (P40): what is wrong is refused before it is saved, and changes nothing.
func TestBadKeys(t *testing.T) {
	path := keyFile(t, 1)
	k, err := openKeys(path, "")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for _, bad := range []string{"", "!", base64.StdEncoding.EncodeToString([]byte("five!")), keyText(1, 33), keyText(3, 32)[1:]} {
		if _, err := k.Add(bad); !errors.Is(err, ErrKey) {
			t.Errorf("key %q: %v", bad, err)
		}
	}
	if err := k.Remove(printOf(1, 32), true); !errors.Is(err, ErrKey) {
		t.Errorf("the primary key is removed: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Errorf("the file has changed to %q", after)
	}
	if _, err := k.Add(keyText(2, 24)); err != nil {
		t.Fatal(err)
	}
	for n := byte(3); n <= KeysMax; n++ {
		if _, err := k.Add(keyText(n, 32)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Add(keyText(100, 32)); !errors.Is(err, ErrKey) {
		t.Errorf("key %d: %v", KeysMax+1, err)
	}
	if again, err := openKeys(path, ""); err != nil || !slices.Equal(prints(again), prints(k)) {
		t.Errorf("opened again: %v, %v, want %v", prints(again), err, prints(k))
	}
	if err := os.WriteFile(path, []byte(keyText(1, 32)+"\n"+keyText(1, 5)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	had := prints(k)
	if err := k.Reload(); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("reload of a bad file: %v", err)
	}
	if !slices.Equal(prints(k), had) {
		t.Errorf("a bad file changes the keys to %v", prints(k))
	}
	if _, err := Start(options(t, "n1", inFile(path))); !errors.Is(err, ErrKey) {
		t.Errorf("start with a bad file: %v", err)
	}
	writeKeys(t, path, 1)
	node(t, "n1", inFile(path))
}

// TestConfiguredKey (P40): the configured key decrypts whatever the file says, and cannot
// be removed.
func TestConfiguredKey(t *testing.T) {
	t.Parallel()
	a := node(t, "n1", func(o *Options) { o.Key = keyText(1, 32) })
	b := node(t, "n2", func(o *Options) { o.Key, o.KeyFile = keyText(1, 32), keyFile(t, 2) })
	c := node(t, "n3", func(o *Options) { o.Key = keyText(1, 32) }, seeds(a))
	agree(t, a, c)
	if list := b.Keys().List(); len(list) != 2 || !list[0].Primary || list[0].Configured || !list[1].Configured {
		t.Errorf("keys: %+v", list)
	}
	if err := b.Keys().Remove(printOf(1, 32), true); !errors.Is(err, ErrKey) {
		t.Errorf("the configured key is removed: %v", err)
	}
	if err := b.Keys().Use(printOf(1, 32), false); err != nil {
		t.Fatal(err)
	}
	d := node(t, "n4", func(o *Options) { o.Key = keyText(1, 32) }, seeds(b, a))
	agree(t, a, b, c, d)
	if _, err := a.Keys().Add(keyText(9, 32)); !errors.Is(err, ErrKey) {
		t.Errorf("a key without a file to keep it in: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	for range 2 { // not there, then without a key
		if _, err := Start(options(t, "n5", inFile(none))); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), none) {
			t.Errorf("a node whose keys are gone starts: %v", err)
		}
		if err := os.WriteFile(none, []byte("# no key\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plain := node(t, "n5")
	if _, err := plain.Keys().Add(keyText(9, 32)); !errors.Is(err, ErrKey) || plain.Keys().Encrypted() {
		t.Errorf("encryption begins while a node runs: %v", err)
	}
}
