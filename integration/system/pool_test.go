package system

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine"
)

// pooled is a real daemon that is a node of a pool.
type pooled struct {
	*operated
	name   string
	config string
}

// startPooled starts a node on free ports of loopback.
func startPooled(t *testing.T, name string, more string) *pooled {
	t.Helper()
	p := &pooled{newOperated(t, ""), name, fmt.Sprintf("[pool]\nid = \"test\"\nname = %q\nbind = \"127.0.0.1:0\"\nprofile = \"fast\"\n%s", name, more)}
	p.again()
	return p
}

// again starts the daemon, the first time or once more.
func (p *pooled) again() {
	p.t.Helper()
	p.write(p.config)
	p.start()
	defer func() {
		if p.t.Failed() {
			p.t.Log(p.log)
		}
	}()
	p.says("msg=serving")
}

// pool runs an operator's command at this node.
func (p *pooled) pool(args ...string) outcome {
	p.t.Helper()
	return run(p.t, nil, append(append([]string{"pool"}, args...), "--socket", p.socket)...)
}

// shows waits until a command's output, with its columns a space apart, matches.
func (p *pooled) shows(pattern string, args ...string) {
	p.t.Helper()
	is := regexp.MustCompile(pattern)
	text := ""
	p.t.Cleanup(func() {
		if p.t.Failed() && text != "" {
			p.t.Logf("%s, pool %v: %s\n%s", p.name, args, text, p.log)
		}
	})
	waitFor(p.t, fmt.Sprintf("%q of %s", pattern, p.name), func() bool {
		text = ""
		for line := range strings.Lines(p.pool(args...).stdout) {
			text += strings.Join(strings.Fields(line), " ") + "\n"
		}
		return is.MatchString(text)
	})
	text = ""
}

func (p *pooled) gossip() string {
	p.t.Helper()
	return p.pool("status", "--json").want(p.t, 0).object(p.t)["gossip"].(string)
}

// threePooled is a pool of three that know each other.
func threePooled(t *testing.T, more string) (a, b, c *pooled) {
	t.Helper()
	a = startPooled(t, "a", more)
	join := fmt.Sprintf("seeds = [%q]\n", a.gossip())
	b, c = startPooled(t, "b", join+more), startPooled(t, "c", join+more)
	a.config += join
	for _, p := range []*pooled{a, b, c} {
		p.shows(`(?s)( alive active .*){3}`, "members")
		p.shows(`2 of 2 peers used`, "status")
	}
	return a, b, c
}

const pooledBytes = 64 << 10

// poolClient is a client of one node with memory for its blocks.
type poolClient struct {
	t      *testing.T
	space  *client.Namespace
	memory *client.Region
}

func (p *pooled) client(blocks int) *poolClient {
	p.t.Helper()
	c := p.dial()
	p.t.Cleanup(c.Close)
	ns, err := c.Namespace(p.t.Context(), engine.Descriptor{Name: "n", BlockBytes: pooledBytes}, "")
	if err != nil {
		p.t.Fatal(err)
	}
	memory, err := c.Allocate(int64(blocks) * pooledBytes)
	if err != nil {
		p.t.Fatal(err)
	}
	return &poolClient{p.t, ns, memory}
}

func (c *poolClient) blocks(from, to int) (all []client.Block) {
	for i := from; i < to; i++ {
		all = append(all, client.Block{Key: fmt.Appendf(nil, "key-%d", i), Places: []client.Place{c.memory.Row(i-from, pooledBytes)}})
	}
	return all
}

// content is what block i holds.
func content(i int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "block %d", i))
	return bytes.Repeat(sum[:], pooledBytes/len(sum))
}

// put stores blocks and wants all of them taken.
func (c *poolClient) put(from, to int) {
	c.t.Helper()
	for i := from; i < to; i++ {
		copy(c.memory.Bytes()[(i-from)*pooledBytes:], content(i))
	}
	for i, s := range c.space.Put(c.blocks(from, to), client.PutOptions{}).Wait().Statuses {
		if s != client.Stored && s != client.Present {
			c.t.Errorf("block %d: %v", from+i, s)
		}
	}
}

// get reads blocks, wants none with wrong bytes, and says how many were hits.
func (c *poolClient) get(from, to int) (hits int) {
	c.t.Helper()
	clear(c.memory.Bytes())
	for i, s := range c.space.Get(c.blocks(from, to), client.GetOptions{}).Wait().Statuses {
		if s != client.Hit {
			continue
		}
		hits++
		if !bytes.Equal(c.memory.Bytes()[i*pooledBytes:(i+1)*pooledBytes], content(from+i)) {
			c.t.Errorf("block %d: wrong bytes", from+i)
		}
	}
	return hits
}

// all waits until a node gives all of these blocks.
func (c *poolClient) all(from, to int) {
	c.t.Helper()
	hits := 0
	for end := time.Now().Add(hangLimit); hits < to-from; {
		if hits = c.get(from, to); time.Now().After(end) {
			c.t.Fatalf("%d of %d blocks", hits, to-from)
		}
	}
}

// TestPool: three real daemons. What is put at one is got at another; one is drained and
// stopped, and nothing is lost; one is killed, and what is left goes on; it comes back with
// its blocks; another is killed, forgotten, and its name is free for a new node.
func TestPool(t *testing.T) {
	if testing.Short() {
		t.Skip("three daemons")
	}
	const blocks = 200
	a, b, c := threePooled(t, "")
	atA, atB, atC := a.client(blocks), b.client(blocks), c.client(blocks)
	atC.put(0, blocks)
	atA.all(0, blocks)
	atB.all(0, blocks)
	a.pool("locate", "n", "key-0").want(t, 0)

	drain := c.pool("drain").want(t, 0)
	if !strings.Contains(drain.stdout, "c is drained") {
		t.Errorf("%s", drain.stdout)
	}
	c.pool("drain", "--json").want(t, 0)
	c.shows("drain .* hands its blocks over", "events")
	c.stop()
	a.shows(`c \w+ left`, "members")
	atA.all(0, blocks)
	atB.all(0, blocks)

	// b is killed: what a has stays, and a is not held up.
	b.signal(syscall.SIGKILL)
	b.wait()
	atA.put(blocks, blocks+20)
	there := atA.get(0, blocks)
	a.shows(`b \w+ failed`, "members")
	if again := atA.get(0, blocks); again < there {
		t.Errorf("%d hits after %d", again, there)
	}
	b.again()
	a.shows(`b \w+ alive active`, "members")
	atA.all(0, blocks)
	atA.all(blocks, blocks+20)

	// It goes for good: it is forgotten, and its name is another's.
	b.signal(syscall.SIGKILL)
	b.wait()
	a.shows(`b \w+ failed`, "members")
	a.pool("forget", "b").want(t, 0)
	if m := a.pool("members").want(t, 0).stdout; strings.Contains(m, "\nb ") {
		t.Errorf("forgotten, and there:\n%s", m)
	}
	b2 := startPooled(t, "b", fmt.Sprintf("seeds = [%q]\n", a.gossip()))
	a.shows(`b \w+ alive active`, "members")
	if code, text := a.get("/metrics"); code != 200 || !strings.Contains(text, `spillway_peer_usable{peer="b"} 1`) || !strings.Contains(text, `spillway_pool_state{state="active"} 1`) {
		t.Errorf("%d: the metrics do not say so", code)
	}
	b2.stop()
	a.stop()
}

// TestPoolSecured: with a keyring and certificates nodes find each other and blocks flow;
// whoever has neither, or others, is turned away and named; certificates are replaced
// while it runs, and the keys are rotated without losing a member.
func TestPoolSecured(t *testing.T) {
	if testing.Short() {
		t.Skip("daemons")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	authority(t, dir, "ca")
	node := func(name string) string {
		issue(t, dir, "ca", name)
		return fmt.Sprintf("keyring = %q\ntls_cert = %q\ntls_key = %q\ntls_ca = %q\n", keyring(t, dir, name, "c3BpbGx3YXktdGVzdC1rZXktMDAwMDAx"),
			filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"), filepath.Join(dir, "ca.crt"))
	}
	a := startPooled(t, "a", node("a"))
	join := fmt.Sprintf("seeds = [%q]\n", a.gossip())
	b := startPooled(t, "b", join+node("b"))
	a.shows(`(?s)( alive active .*){2}`, "members")
	b.shows(`keyring, TLS`, "status")
	b.shows(`1 of 1 peer used`, "status")
	atA, atB := a.client(20), b.client(20)
	atA.put(0, 20)
	atB.all(0, 20)

	open := startPooled(t, "open", join)
	a.shows("turned away.*key mismatch", "members")
	open.stop()
	authority(t, dir, "other")
	issue(t, dir, "other", "liar")
	liar := startPooled(t, "liar", join+fmt.Sprintf("keyring = %q\ntls_cert = %q\ntls_key = %q\ntls_ca = %q\n", keyring(t, dir, "liar", "c3BpbGx3YXktdGVzdC1rZXktMDAwMDAx"),
		filepath.Join(dir, "liar.crt"), filepath.Join(dir, "liar.key"), filepath.Join(dir, "other.crt")))
	a.shows(`liar \w+ alive`, "members") // the key makes a member; without a certificate it is no peer
	a.shows(`(?m)^liar \S+ (down|never)`, "status")
	if hits := liar.client(20).get(0, 20); hits != 0 {
		t.Errorf("%d blocks for who has no certificate", hits)
	}
	liar.stop()

	issue(t, dir, "ca", "a") // another key and certificate under the same names
	b.stop()
	b.again()
	b.shows(`1 of 1 peer used`, "status")
	atB = b.client(20)
	atB.all(0, 20)

	rotate(t, dir, a, b)
	atB.all(0, 20)
	b.stop()
	a.stop()
}

// rotate does what docs/operations.md says.
func rotate(t *testing.T, dir string, nodes ...*pooled) {
	t.Helper()
	key := keyring(t, dir, "new", "c3BpbGx3YXktdGVzdC1rZXktMDAwMDAy")
	fingerprints := map[string]bool{}
	list := func(p *pooled) (all []string) {
		for _, line := range strings.Split(p.pool("keys").want(t, 0).stdout, "\n")[1:] {
			if f := strings.Fields(line); len(f) > 0 {
				all = append(all, f[0])
			}
		}
		return all
	}
	old := list(nodes[0])[0]
	for _, p := range nodes {
		p.pool("keys", "add", key).want(t, 0)
		fingerprints[list(p)[1]] = true
	}
	if len(fingerprints) != 1 {
		t.Fatalf("one key has several fingerprints: %v", fingerprints)
	}
	for _, p := range nodes {
		for f := range fingerprints {
			p.shows(f+` \d+ a, b`, "keys")
		}
	}
	for _, p := range nodes {
		for f := range fingerprints {
			p.pool("keys", "use", f).want(t, 0)
		}
	}
	for _, p := range nodes {
		p.shows(`(?m)^`+old+` \d+ a, b$`, "keys") // held by both, used by none
		p.pool("keys", "remove", old).want(t, 0)
		if left := list(p); len(left) != 1 || !fingerprints[left[0]] {
			t.Errorf("%s has %v", p.name, left)
		}
		p.shows(`(?s)( alive active .*){2}`, "members")
	}
}

func keyring(t *testing.T, dir, name, key string) string {
	t.Helper()
	path := filepath.Join(dir, name+".keys")
	writeFile(t, path, []byte(key+"\n"))
	return path
}

// The commands of docs/operations.md.
func authority(t *testing.T, dir, name string) {
	t.Helper()
	shell(t, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj", "/CN=spillway pool",
		"-keyout", filepath.Join(dir, name+".key"), "-out", filepath.Join(dir, name+".crt"))
}

func issue(t *testing.T, dir, ca, name string) {
	t.Helper()
	at := func(end string) string { return filepath.Join(dir, end) }
	shell(t, "openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN="+name, "-keyout", at("new.key"), "-out", at("new.csr"))
	writeFile(t, at("ext"), fmt.Appendf(nil, "subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth,clientAuth\n", name))
	shell(t, "openssl", "x509", "-req", "-in", at("new.csr"), "-CA", at(ca+".crt"), "-CAkey", at(ca+".key"), "-days", "365", "-out", at("new.crt"), "-extfile", at("ext"))
	shell(t, "openssl", "verify", "-CAfile", at(ca+".crt"), at("new.crt"))
	for _, end := range []string{".key", ".crt"} {
		if err := os.Rename(at("new"+end), at(name+end)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewcomer: the commands of docs/operations.md for three nodes on one machine do what
// the page says, as they stand there.
func TestNewcomer(t *testing.T) {
	if testing.Short() {
		t.Skip("three daemons")
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "### Three nodes on one machine")
	fences := strings.Split(part, "```")
	if len(fences) < 4 {
		t.Fatal("the page has no commands")
	}
	serves, rest := strings.Split(strings.TrimSpace(strings.TrimPrefix(fences[1], "sh")), "\n"), strings.TrimPrefix(fences[3], "sh")
	if len(serves) != 3 {
		t.Fatalf("%d commands, want three", len(serves))
	}
	dir := t.TempDir()
	// The ports of the page may be taken here, as may be its sockets; and any file system must do.
	own := strings.NewReplacer("/tmp/", dir+"/", "spillway serve", "exec "+spillway+" serve --any-filesystem --buffered-io", "spillway ", spillway+" ",
		":7420", ":27420", ":7421", ":27421", ":7430", ":27430", ":7440", ":27440", "512MiB", "16MiB")
	var logs [3]lines
	for i, command := range serves {
		p := exec.Command("sh", "-c", own.Replace(command))
		p.Dir, p.Stderr, p.Stdout = dir, &logs[i], &logs[i]
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = p.Process.Signal(syscall.SIGTERM)
			if err := p.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &logs[i])
			}
		}()
		waitFor(t, "serving", func() bool { return strings.Contains(logs[i].String(), "msg=serving") })
	}
	waitFor(t, "three active members", func() bool {
		return strings.Count(run(t, nil, "pool", "members", "--socket", filepath.Join(dir, "a.sock")).stdout, " active ") == 3
	})
	text, err := exec.Command("sh", "-ec", own.Replace(rest)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, &logs[0])
	}
	for _, want := range []string{"active", "c is drained", "hands its blocks over"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "missed=") {
		t.Errorf("not all reads were hits:\n%s", text)
	}
}
