package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
)

// Pool is this node's part in a pool of nodes.
type Pool struct {
	ID              string   `toml:"id"`                      // of the pool, the same on all its nodes; empty: this daemon is in no pool
	Name            string   `toml:"name"`                    // of this node, which no other node of the pool has; empty: the host's
	Dir             string   `toml:"dir"`                     // where the node keeps who it is and what was erased; empty: that of the first store with .pool behind it
	Bind            string   `toml:"bind"`                    // where data connections of other nodes are taken, host and port; without a host on all addresses
	Advertise       string   `toml:"advertise"`               // where other nodes reach that, a host with or without a port; empty: the host of gossip_advertise and the port of bind
	GossipBind      string   `toml:"gossip_bind"`             // where the nodes tell each other who is there, host and port, TCP and UDP; empty: the host of bind and the port behind its
	GossipAdvertise string   `toml:"gossip_advertise"`        // where other nodes reach that; empty: the address of this machine that fits
	Seeds           []string `toml:"seeds"`                   // gossip addresses of some nodes of the pool, or names that stand for them, with or without a port; of all nodes the same list will do
	Keyring         string   `toml:"keyring"`                 // a file with the keys of the gossip; without it everybody who reaches the port may join and listen
	Profile         string   `toml:"profile"`                 // how soon a node that is gone counts as failed: fast, default or slow
	Zone            string   `toml:"zone"`                    // where this node stands, such as a rack; copies go to different zones
	TLSCert         string   `toml:"tls_cert"`                // a file with this node's certificate, PEM; with it data connections are encrypted, and both sides show one
	TLSKey          string   `toml:"tls_key"`                 // a file with its key
	TLSCA           string   `toml:"tls_ca"`                  // a file with the certificates that those of the nodes are signed by
	TLSNames        bool     `toml:"tls_names"`               // a node's name must stand among the DNS names of its certificate; else any certificate of tls_ca will do for any node
	Copies          int      `toml:"copies"`                  // of each new block, on different nodes, 1 to 3
	Placement       string   `toml:"placement"`               // of new blocks: run (the pool chooses a home for each run of them) or local (they stay on the node that they are put to)
	MatchTime       Duration `toml:"match_time"`              // how long a match waits for other nodes
	GetTime         Duration `toml:"get_time"`                // how long a block may take from another node, without a deadline of its own
	PutTime         Duration `toml:"put_time"`                // how long a run may take to another node
	DrainRate       Size     `toml:"drain_rate" reload:"yes"` // bytes a second that this node sends of its own accord: when it drains, and for lost copies
	HotReads        int      `toml:"hot_reads" reload:"yes"`  // after how many reads from other nodes a block gets a copy here, too; 0: never
	Connections     int      `toml:"connections"`             // for blocks, to each other node, 1 to 4

	Transport        string   `toml:"transport"`          // how blocks come from other nodes: tcp, or rdma where both sides can, else tcp nevertheless (docs/rdma.md)
	RDMAPorts        []string `toml:"rdma_ports"`         // RDMA devices, such as mlx5_0, or ports of theirs, such as mlx5_0:1, to use; empty: all that are up
	RDMAGIDIndex     int      `toml:"rdma_gid_index"`     // which of a port's addresses it uses on Ethernet, 1 to 255; 0: its first of RoCE v2, IPv4 before IPv6
	RDMATrafficClass int      `toml:"rdma_traffic_class"` // of what is sent over RoCE, 0 to 255: the DSCP times 4; the switches must know it
	RDMAServiceLevel int      `toml:"rdma_service_level"` // of what is sent over RDMA, 0 to 15
	RDMATimeout      int      `toml:"rdma_timeout"`       // of a packet's acknowledgement, as devices count it: 4.096 us times 2 to this power, 8 to 22; 14 is 67 ms
	RDMARetries      int      `toml:"rdma_retries"`       // times that a packet is sent again before its peer counts as gone, 1 to 6
	RDMALanding      Size     `toml:"rdma_landing"`       // memory for blocks that cannot come straight into registered memory, and as much again for those that cannot go straight out of it, 1MiB to 64GiB; larger blocks go by tcp then
	RDMAPlain        bool     `toml:"rdma_plain"`         // with certificates: let blocks travel by RDMA, which TLS does not encrypt; else they go by tcp
}

// Ports that a node takes unless the configuration says otherwise.
const (
	DataPort   = "7420"
	GossipPort = "7421"
)

// Values of pool.placement, pool.profile and pool.transport.
const (
	TransportTCP   = "tcp"
	TransportRDMA  = "rdma"
	PlacementRun   = "run"
	PlacementLocal = "local"
	ProfileFast    = "fast"
	ProfileDefault = "default"
	ProfileSlow    = "slow"
)

func defaultPool() Pool {
	return Pool{Bind: ":" + DataPort, Seeds: []string{}, Profile: ProfileDefault, Copies: 1, Placement: PlacementRun, MatchTime: Duration{50 * time.Millisecond},
		GetTime: Duration{time.Second}, PutTime: Duration{5 * time.Second}, DrainRate: 256 << 20, Connections: 2,
		Transport: TransportTCP, RDMAPorts: []string{}, RDMATimeout: 14, RDMARetries: 5, RDMALanding: 64 << 20}
}

// keyError is a value of [pool] that is wrong.
type keyError struct{ key, text string }

func (e *keyError) Error() string { return "pool." + e.key + " " + e.text }

func wrong(key, format string, args ...any) *keyError {
	return &keyError{key, fmt.Sprintf(format, args...)}
}

// check says which value is wrong in itself.
func (p *Pool) check() *keyError {
	for _, c := range []func() *keyError{p.checkWords, p.checkAddresses, p.checkNumbers, p.checkRDMA} {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

// word are what IDs, names and zones are made of: they end up in logs, metrics and on
// command lines.
var word = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

func (p *Pool) checkWords() *keyError {
	for _, w := range []struct {
		key, value string
		most       int
	}{{"id", p.ID, member.PoolIDBytesMax}, {"name", p.Name, member.NameBytesMax}, {"zone", p.Zone, member.ZoneBytesMax}} {
		if w.value != "" && (len(w.value) > w.most || !word.MatchString(w.value)) {
			return wrong(w.key, "is %q; want at most %d letters, digits, dots, dashes and underscores, the first and the last a letter or a digit", w.value, w.most)
		}
	}
	if p.Placement != PlacementRun && p.Placement != PlacementLocal {
		return wrong("placement", "is %q, want run or local", p.Placement)
	}
	if p.Profile != ProfileFast && p.Profile != ProfileDefault && p.Profile != ProfileSlow {
		return wrong("profile", "is %q, want fast, default or slow", p.Profile)
	}
	return nil
}

func (p *Pool) checkNumbers() *keyError {
	if p.Copies < 1 || p.Copies > pool.CopiesMax {
		return wrong("copies", "is %d, want 1 to %d", p.Copies, pool.CopiesMax)
	}
	if p.Connections < 1 || p.Connections > tcp.LinkConnectionsMax {
		return wrong("connections", "is %d, want 1 to %d", p.Connections, tcp.LinkConnectionsMax)
	}
	for key, d := range map[string]Duration{"match_time": p.MatchTime, "get_time": p.GetTime, "put_time": p.PutTime} {
		if d.Duration < time.Millisecond || d.Duration > time.Minute {
			return wrong(key, "is %v, want 1ms to 1m", d)
		}
	}
	if p.HotReads < 0 || p.HotReads > pool.HotReadsMax {
		return wrong("hot_reads", "is %d, want 0 to %d", p.HotReads, pool.HotReadsMax)
	}
	if p.DrainRate < 1<<20 || p.DrainRate > 1<<40 {
		return wrong("drain_rate", "is %d bytes a second, want 1MiB to 1TiB", p.DrainRate)
	}
	return nil
}

// checkPool checks [pool] as a whole, after the flags.
func (f *File) checkPool() error {
	p := &f.Pool
	if err := p.check(); err != nil {
		return &Error{Text: err.Error()}
	}
	if p.ID == "" {
		if plain := defaultPool(); !reflect.DeepEqual(*p, plain) {
			return &Error{Text: "there is a [pool] without an id: give pool.id (--pool), the same on all its nodes"}
		}
		return nil
	}
	if n := p.tlsFiles(); n != 0 && n != 3 {
		return &Error{Text: "pool.tls_cert, pool.tls_key and pool.tls_ca go together: give all of them, or none"}
	}
	if p.TLSNames && !p.TLS() {
		return &Error{Text: "pool.tls_names is about certificates: give pool.tls_cert, pool.tls_key and pool.tls_ca"}
	}
	if _, err := p.NodeName(); err != nil {
		return &Error{Text: err.Error()}
	}
	return p.checkFiles()
}

// Insecure says who could get at the pool's blocks for want of keys and certificates;
// empty: nobody.
func (p *Pool) Insecure() string {
	switch keys := p.Keyring != ""; {
	case !keys && !p.TLS():
		return "no keyring and no certificates: whoever reaches its ports can join the pool, and read, write and erase its blocks"
	case !keys:
		return "no keyring: whoever reaches the gossip port can say that he is a node, and learn which there are"
	case !p.TLS():
		return "no certificates: whoever reaches the data port can read, write and erase blocks, and listen in"
	}
	return ""
}

// tlsFiles is how many of the three files are given.
func (p *Pool) tlsFiles() (n int) {
	for _, file := range []string{p.TLSCert, p.TLSKey, p.TLSCA} {
		if file != "" {
			n++
		}
	}
	return n
}

// TLS says whether data connections are encrypted.
func (p *Pool) TLS() bool { return p.tlsFiles() == 3 }

// NodeName is this node's name in the pool.
func (p *Pool) NodeName() (string, error) {
	if p.Name != "" {
		return p.Name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the host's name is not known: give pool.name (--pool-name): %w", err)
	}
	if len(name) > member.NameBytesMax || !word.MatchString(name) {
		return "", fmt.Errorf("the host's name %q does not do as this node's name: give pool.name (--pool-name)", name)
	}
	return name, nil
}

// PoolDir is where the node keeps who it is and what was erased.
func (f *File) PoolDir() string {
	if f.Pool.Dir != "" || len(f.Stores) == 0 {
		return f.Pool.Dir
	}
	return strings.TrimRight(f.Stores[0].Dir, "/") + ".pool"
}

// lineOfKey is the line of a key of a table in a file of TOML; 0: it is not written in the
// ordinary way.
func lineOfKey(text []byte, table, key string) int {
	within, number := false, 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		name, _, assigns := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch {
		case strings.HasPrefix(line, "["):
			within = strings.TrimSpace(strings.Trim(strings.SplitN(line, "#", 2)[0], "[] \t")) == table
		case assigns && (within && name == key || name == table+"."+key):
			return number
		}
	}
	return 0
}
