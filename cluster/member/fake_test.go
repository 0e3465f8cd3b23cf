package member

import (
	"io"
	"log"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// fake is a member by the library's means alone, which says of itself what a test wants.
type fake struct {
	list *memberlist.Memberlist
	meta func() []byte
}

func (f *fake) NodeMeta(int) []byte             { return f.meta() }
func (f *fake) NotifyMsg([]byte)                {}
func (f *fake) GetBroadcasts(int, int) [][]byte { return nil }
func (f *fake) LocalState(bool) []byte          { return nil }
func (f *fake) MergeRemoteState([]byte, bool)   {}

// newFake starts one, with a label and a metadata of its own.
func newFake(t *testing.T, name, label string, key []byte, meta func() []byte) *fake {
	t.Helper()
	f := &fake{meta: meta}
	c := memberlist.DefaultLANConfig()
	c.Name, c.BindAddr, c.BindPort, c.AdvertisePort, c.Label, c.SecretKey = name, "127.0.0.1", 0, 0, label, key
	c.Delegate, c.Logger = f, log.New(io.Discard, "", 0)
	c.ProbeInterval, c.GossipInterval, c.PushPullInterval = 100*time.Millisecond, 20*time.Millisecond, time.Second
	c.SuspicionMult, c.ProbeTimeout, c.TCPTimeout = 200, 50*time.Millisecond, patience
	list, err := memberlist.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	f.list = list
	t.Cleanup(func() { list.Shutdown() })
	return f
}

func (f *fake) join(g *Gossip) error {
	_, err := f.list.Join([]string{g.advertise.String()})
	return err
}

// metaOf is the metadata of a sound member, changed.
func metaOf(t *testing.T, name string, change func(*metadata)) func() []byte {
	m := metadata{poolID: "red", member: Member{ID: identityFor(name, 1).ID, Start: 1, Address: dataListener(t), ProtocolLow: 1, ProtocolHigh: 1, State: Active}}
	if change != nil {
		change(&m)
	}
	return func() []byte { return appendMetadata(nil, &m) }
}
