package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os/user"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/fio"
)

// Check says why a daemon could not start with this configuration, as far as the
// file tells: it reads the files of tokens and looks the group up, but touches no
// store and no socket. The error is an *Error or of the system.
func (f *File) Check() error {
	bad := func(format string, args ...any) error { return &Error{Text: fmt.Sprintf(format, args...)} }
	if len(f.Stores) == 0 {
		return bad("no store: add a [[store]] with its dir, or give --dir")
	}
	if f.Socket.Path == "" || len(f.Socket.Path) > node.SocketPathMax {
		return bad("socket.path has %d bytes, want 1 to %d", len(f.Socket.Path), node.SocketPathMax)
	}
	if _, err := f.Socket.GroupID(); err != nil {
		return err
	}
	if err := f.Admin.check(); err != nil {
		return err
	}
	if _, err := f.Log.SlogLevel(); err != nil {
		return err
	}
	if f.Log.Format != "text" && f.Log.Format != "json" {
		return bad("log.format is %q, want text or json", f.Log.Format)
	}
	if f.Limits.StopTime.Duration < 0 || f.Gate.ComputePerToken.Duration < 0 {
		return bad("limits.stop_time %v or gate.compute_per_token %v is negative", f.Limits.StopTime, f.Gate.ComputePerToken)
	}
	if err := f.Gate.check(); err != nil {
		return err
	}
	if f.Gate.Budget.Duration != 0 {
		if _, err := fio.ParseBudget(f.Gate.Budget.String()); err != nil {
			return bad("gate.budget: %v", err)
		}
	}
	if err := f.Memory.check(); err != nil {
		return err
	}
	if err := f.checkLists(); err != nil {
		return err
	}
	if err := f.checkPool(); err != nil {
		return err
	}
	if _, err := f.Admin.Secret(); err != nil {
		return err
	}
	o, err := f.NodeOptions()
	if err == nil {
		err = o.Validate()
	}
	if errors.Is(err, node.ErrOptions) {
		return bad("%s", strings.TrimPrefix(err.Error(), node.ErrOptions.Error()+": "))
	}
	return err
}

// checkLists checks [[store]] and [[namespace]].
func (f *File) checkLists() error {
	dirs, names := map[string]bool{}, map[string]bool{}
	for i := range f.Stores {
		s := &f.Stores[i]
		if _, err := evict.Named(s.Policy); err != nil {
			return &Error{Text: fmt.Sprintf("[[store]] number %d (%s): policy: %v", i+1, s.Dir, err)}
		}
		if err := s.Options(nil).Validate(); err != nil {
			return fmt.Errorf("[[store]] number %d (%s): %w", i+1, s.Dir, err)
		}
		if dirs[s.Dir] {
			return &Error{Text: fmt.Sprintf("two stores in %s", s.Dir)}
		}
		dirs[s.Dir] = true
	}
	for i := range f.Namespaces {
		n := &f.Namespaces[i]
		if n.Name == "" || names[n.Name] {
			return &Error{Text: fmt.Sprintf("[[namespace]] number %d has no name, or that of another: %q", i+1, n.Name)}
		}
		names[n.Name] = true
		if n.Share < 1 || n.Share > 1000 {
			return &Error{Text: fmt.Sprintf("namespace %q: share is %d, want 1 to 1000", n.Name, n.Share)}
		}
	}
	return nil
}

// Options are the engine's. logger may be nil.
func (s *Store) Options(logger *slog.Logger) engine.Options {
	policy, _ := evict.Named(s.Policy) // checked
	return engine.Options{Dir: s.Dir, CapacityBytes: int64(s.Capacity), Policy: policy, IOEngine: s.IOEngine, Rings: s.Rings, QueueDepth: s.QueueDepth,
		ScrubBytesPerSecond: int64(s.ScrubRate), IndexMemoryMaxBytes: int64(s.IndexMemory), FrameBytes: int64(s.FrameMemory),
		SyncInterval: s.SyncInterval.Duration, LeaseMax: s.LeaseMax.Duration, LeaseShare: s.LeaseShare,
		LockWait: s.LockWait.Duration, BufferedIO: s.BufferedIO, AnyFileSystem: s.AnyFilesystem, Logger: logger}
}

// NodeOptions are the node's, but for stores, name and logger. It reads the files
// of tokens.
func (f *File) NodeOptions() (o node.Options, err error) {
	l := &f.Limits
	o = node.Options{Prefetch: f.Memory.Prefetch, AllowUIDs: f.Socket.AllowUIDs, Namespaces: map[string]node.NamespaceRule{}, OnlyListed: l.OnlyListed,
		ConnectionsMax: l.Connections, NamespacesMax: l.Namespaces, RequestsMax: l.Requests, KeysMax: l.Keys,
		RegionsMax: l.Regions, RegionBytesMax: int64(l.RegionBytes), LeasesMax: l.Leases,
		PutQueueBytes: int64(f.Puts.QueueBytes), PutQueueTime: f.Puts.QueueTime.Duration,
		Patience: l.Patience.Duration, StallTime: l.StallTime.Duration, KeepRegionsUnpinned: !l.PinnedMemory,
		GPU: f.Gate.GPU, Model: f.Gate.Model, TensorParallel: f.Gate.TP, ComputePerToken: f.Gate.ComputePerToken.Duration, Admission: f.Admission.options(), Endurance: map[string]int64{}}
	for i := range f.Stores {
		o.Endurance[f.Stores[i].Dir] = int64(f.Stores[i].Endurance)
	}
	for name, n := range map[string]int64{"limits.connections": int64(l.Connections), "limits.namespaces": int64(l.Namespaces),
		"limits.requests": int64(l.Requests), "limits.keys": int64(l.Keys), "limits.regions": int64(l.Regions),
		"limits.region_bytes": int64(l.RegionBytes), "limits.leases": int64(l.Leases), "puts.queue_bytes": int64(f.Puts.QueueBytes),
		"puts.queue_time": int64(o.PutQueueTime), "admission.write_burst": int64(o.Admission.WriteBurst), "admission.wear_burst": int64(o.Admission.WearBurst), "limits.patience": int64(o.Patience), "limits.stall_time": int64(o.StallTime)} {
		if n == 0 { // the node would take it for its default
			return o, &Error{Text: name + " is 0; leave the key out for its default"}
		}
	}
	if o.Token, err = tokenOf("socket", f.Socket.Token, f.Socket.TokenFile); err != nil {
		return o, err
	}
	for i := range f.Namespaces {
		n := &f.Namespaces[i]
		token, err := tokenOf(fmt.Sprintf("namespace %q", n.Name), n.Token, n.TokenFile)
		if err != nil {
			return o, err
		}
		o.Namespaces[n.Name] = node.NamespaceRule{Token: token, Share: n.Share, QuotaBytes: n.Quota.Bytes(),
			Admit: n.Admit, WriteShare: n.WriteShare, ComputePerToken: n.ComputePerToken.Duration}
	}
	return o, nil
}

func (a *Admission) options() node.Admission {
	return node.Admission{Admit: a.Admit, PartialBlocks: a.PartialBlocks, WriteBytesPerSecond: int64(a.WriteRate), WriteBurst: a.WriteBurst.Duration,
		DrivesPerDay: a.DrivesPerDay, WearBurst: a.WearBurst.Duration}
}

// tokenOf is the token that is given, or the content of the file that is.
func tokenOf(of string, token Secret, file string) (string, error) {
	if strings.TrimSpace(token.text) != token.text {
		return "", &Error{Text: of + ": the token begins or ends with a space"}
	}
	if file == "" {
		return token.text, nil
	}
	if token.text != "" {
		return "", &Error{Text: of + " has both a token and a token_file"}
	}
	text, err := readFile(file)
	if err != nil {
		return "", &Error{File: file, Text: fmt.Sprintf("the token of %s cannot be read: %v", of, err)}
	}
	read := strings.TrimSpace(string(text))
	if read == "" {
		return "", &Error{File: file, Text: "no token of " + of + " in the file"}
	}
	return read, nil
}

// ReadToken is the token in a file; empty without a file.
func ReadToken(file string) (string, error) { return tokenOf("the client", Secret{}, file) }

// Secret is the token of the admin interface.
func (a *Admin) Secret() (string, error) { return tokenOf("admin", a.Token, a.TokenFile) }

func (a *Admin) check() error {
	if a.Address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(a.Address)
	if err != nil {
		return &Error{Text: fmt.Sprintf("admin.address %q: want a host and a port, such as 127.0.0.1:9470 or [::1]:9470", a.Address)}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return &Error{Text: fmt.Sprintf("admin.address %q: port %q is no number up to 65535", a.Address, port)}
	}
	if a.AllowRemote || isLoopback(host) {
		return nil
	}
	return &Error{Text: fmt.Sprintf("admin.address %q: other machines reach it; take 127.0.0.1, or set admin.allow_remote", a.Address)}
}

// isLoopback says whether only this machine reaches a host. Of names only
// localhost is known to be one.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// GroupID is the number of the socket's group; -1: the daemon's.
func (s *Socket) GroupID() (int, error) {
	if s.Group == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(s.Group, 10, 31); err == nil {
		return int(n), nil
	}
	g, err := user.LookupGroup(s.Group)
	if err != nil {
		return 0, &Error{Text: "socket.group: " + err.Error()}
	}
	return strconv.Atoi(g.Gid)
}

// SlogLevel is the level as slog has it.
func (l *Log) SlogLevel() (level slog.Level, err error) {
	switch l.Level {
	case "debug", "info", "warn", "error":
		err = level.UnmarshalText([]byte(l.Level))
		return level, err
	}
	return level, &Error{Text: fmt.Sprintf("log.level is %q, want debug, info, warn or error", l.Level)}
}
