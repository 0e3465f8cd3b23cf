package member

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

func blue(o *Options) { o.PoolID = "blue" }

// TestPoolsStayApart (P35): two pools whose nodes know of each other never mix, with and
// without keys, and count what they turned away.
func TestPoolsStayApart(t *testing.T) {
	for name, key := range map[string]string{"plain": "", "the same key": keyText(1, 32)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keyed := func(o *Options) { o.Key = key }
			red := pool(t, 2, keyed)
			first := node(t, "n1", blue, keyed, seeds(red[0]))
			second := node(t, "b2", blue, keyed, seeds(first, red[1]))
			until(t, "red has turned blue away, again and again", func() bool {
				return red[0].Status().Counters.Foreign > 3 && red[1].Status().Counters.Foreign > 3
			})
			until(t, "the blue node says what is wrong with its seed", func() bool {
				s := first.Status().Seeds[0]
				return s.Attempts > 3 && s.Error == red[0].advertise.String()+" closes the connection: it is of another pool, or no port of gossip"
			})
			agree(t, first, second)
			agree(t, red...)
			why := red[0].Status().Refusals
			if len(why) == 0 || why[0].Reason != RefusedForeign || why[0].From != "127.0.0.1" || why[0].Count < 3 {
				t.Errorf("red's refusals: %+v", why)
			}
			for _, g := range append([]*Gossip{first, second}, red...) {
				if g.Err() != nil {
					t.Errorf("%s must stop: %v", g.o.Name, g.Err())
				}
			}
		})
	}
}

// TestReusedAddress (P35): a blue node starts where a red one died, and red looks for it.
func TestReusedAddress(t *testing.T) {
	t.Parallel()
	red := pool(t, 3)
	at := red[2].advertise.String()
	red[2].Close()
	b := node(t, "b1", blue, func(o *Options) { o.Bind = at })
	other := node(t, "b2", blue, seeds(b))
	until(t, "blue has turned red away, again and again", func() bool { return b.Status().Counters.Foreign > 5 })
	until(t, "red has missed its node", func() bool { return healthOf(red[0], "n3") == Failed })
	agree(t, b, other)
	agree(t, red[:2]...)
}

// TestForeignMembers: what reaches the library all the same is judged by its metadata, on
// every way in, and each kind has its counter.
func TestForeignMembers(t *testing.T) {
	for name, c := range map[string]struct {
		meta   func(*testing.T) func() []byte
		member bool
		count  func(Counters) int64
	}{
		"sound": {func(t *testing.T) func() []byte { return metaOf(t, "fake", nil) }, true, func(Counters) int64 { return 1 }},
		"pool": {func(t *testing.T) func() []byte { return metaOf(t, "fake", func(m *metadata) { m.poolID = "blue" }) }, false,
			func(c Counters) int64 { return c.Foreign }},
		"protocol": {func(t *testing.T) func() []byte {
			return metaOf(t, "fake", func(m *metadata) { m.member.ProtocolLow, m.member.ProtocolHigh = 2, 9 })
		}, false, func(c Counters) int64 { return c.Incompatible }},
		"common protocol": {func(t *testing.T) func() []byte {
			return metaOf(t, "fake", func(m *metadata) { m.member.ProtocolHigh = 9 })
		}, true, func(Counters) int64 { return 1 }},
		"ID of another": {func(t *testing.T) func() []byte {
			return metaOf(t, "fake", func(m *metadata) { m.member.ID = identityFor("n2", 1).ID })
		}, false, func(c Counters) int64 { return c.Conflicts }},
		"later version": {func(*testing.T) func() []byte {
			return func() []byte { return append([]byte{2}, make([]byte, 100)...) }
		}, false,
			func(c Counters) int64 { return c.Malformed }},
		"none": {func(*testing.T) func() []byte { return func() []byte { return nil } }, false, func(c Counters) int64 { return c.Malformed }},
		"appended": {func(t *testing.T) func() []byte {
			b := metaOf(t, "fake", nil)()
			return func() []byte { return append(bytes.Clone(b), "what a later version adds"...) }
		}, true, func(Counters) int64 { return 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := pool(t, 2, calm)
			f := newFake(t, "fake", labelOf("red"), nil, c.meta(t))
			joined := f.join(all[0])
			if c.member {
				until(t, "it is a member", func() bool { return healthOf(all[1], "fake") == Alive })
				return
			}
			until(t, fmt.Sprintf("it is counted (its join: %v)", joined), func() bool { return c.count(all[0].Status().Counters) > 0 })
			agree(t, all...)
			if c := all[0].Status().Counters; c.Failed != 0 {
				t.Errorf("%d have failed", c.Failed)
			}
		})
	}
}

// TestLabelOfAnother: a program that uses the same library without a label, or with
// another one, is nobody.
func TestLabelOfAnother(t *testing.T) {
	t.Parallel()
	all := pool(t, 2, calm)
	for i, label := range []string{"", "red", "spillway pool ", "spillway pool redder", "spillway pool re"} {
		before := all[0].Status().Counters.Foreign
		f := newFake(t, fmt.Sprintf("fake%d", i), label, nil, metaOf(t, "fake", nil))
		if err := f.join(all[0]); err == nil {
			t.Errorf("%q joins", label)
		}
		until(t, "it is counted", func() bool { return all[0].Status().Counters.Foreign > before })
	}
	agree(t, all...)
}

// TestNoise: whatever is sent to the port of gossip, the node lives and stays a member.
func TestNoise(t *testing.T) {
	t.Parallel()
	all := pool(t, 2, calm, func(o *Options) { o.Key = keyText(1, 16) })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	label := append([]byte{labelMagic, byte(len(labelOf("red")))}, labelOf("red")...)
	stream := func(version byte) []byte {
		return append(append(bytes.Clone(label), encryptedStream, 0, 0, 0, 200, version), noise[:200]...)
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "http": []byte("GET / HTTP/1.1\r\nHost: n1\r\n\r\n"), "noise": noise, "one byte": {labelMagic}, "label": label,
		"label and noise": append(bytes.Clone(label), noise...), "plain": append(bytes.Clone(label), 6, 0x83),
		"encrypted": stream(1), "old encryption": stream(0), "cut": stream(1)[:len(label)+3], "huge": append(bytes.Clone(label), encryptedStream, 255, 255, 255, 255, 1),
	} {
		c, err := net.Dial("tcp", all[0].advertise.String())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.Write(b)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c) // until it is closed
		c.Close()
		u, err := net.Dial("udp", all[0].advertise.String())
		if err != nil {
			t.Fatal(err)
		}
		u.Write(b[:min(len(b), 60000)])
		u.Close()
	}
	until(t, "all of it is counted", func() bool {
		c := all[0].Status().Counters
		return c.Foreign >= 6 && c.KeyMismatch >= 3 && c.Malformed >= 1
	})
	agree(t, all...)
	all[1].Announce(Draining, 10, 5)
	until(t, "the node still hears", func() bool { m, _ := memberOf(all[0], "n2"); return m.State == Draining })
}

// TestTooLong (P39): what does not fit is refused with its limit, before anything starts.
func TestTooLong(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 4096))
	for name, change := range map[string]func(*Options){
		"no pool":      func(o *Options) { o.PoolID = "" },
		"pool":         func(o *Options) { o.PoolID = long[:PoolIDBytesMax+1] },
		"no name":      func(o *Options) { o.Name = "" },
		"name":         func(o *Options) { o.Name = long[:200] },
		"zone":         func(o *Options) { o.Zone = long },
		"data address": func(o *Options) { o.DataAddress = long + ":1" },
		"spaces":       func(o *Options) { o.Name = "a b" },
		"newline":      func(o *Options) { o.Zone = "a\n" },
		"no identity":  func(o *Options) { o.Identity = Identity{} },
		"protocols":    func(o *Options) { o.ProtocolLow = 2 },
		"profile":      func(o *Options) { o.Profile = "swift" },
		"bind":         func(o *Options) { o.Bind = "somewhere:1" },
		"advertise":    func(o *Options) { o.Advertise = "0.0.0.0:1" },
		"data":         func(o *Options) { o.DataAddress = "127.0.0.1" },
		"seed":         func(o *Options) { o.Seeds = []string{"::1"} },
		"seeds":        func(o *Options) { o.Seeds = make([]string, SeedsMax+1) },
	} {
		if g, err := start(t, "n1", change); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, %v", name, g, err)
		} else {
			t.Logf("%s: %.200v", name, err)
		}
	}
}

// TestLongest (P39): the longest of everything fits, and arrives.
func TestLongest(t *testing.T) {
	t.Parallel()
	long := string(bytes.Repeat([]byte("x"), 63))
	host := long + "." + long + "." + long + "." + long[:AddressBytesMax-4-3*64]
	big := func(o *Options) {
		o.PoolID, o.Zone, o.Key, o.KeyFile = long+"p", long[:ZoneBytesMax], keyText(8, 32), keyFile(t, 1, 2, 3, 4, 5, 6, 7)
	}
	a := node(t, long+"a", big)
	b := node(t, long+"b", big, seeds(a), func(o *Options) { o.DataAddress = host + ":65535"[:len(":65535")-(len(host)+6-AddressBytesMax)] })
	b.Announce(Leaving, 1<<62, 1<<62)
	until(t, "all of it arrives", func() bool {
		m, _ := memberOf(a, b.o.Name)
		return m.State == Leaving && m.Address == b.o.DataAddress && m.Zone == b.o.Zone && len(m.Keys) == KeysMax && m.CapacityBytes == 1<<62
	})
	m := b.selfMetadata()
	if n := len(appendMetadata(nil, &m)); n > metadataBytesMax {
		t.Errorf("metadata of %d bytes, want at most %d", n, metadataBytesMax)
	}
}
