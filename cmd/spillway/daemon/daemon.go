// Package daemon is the life of `spillway serve`: it takes the socket's path, opens
// the stores, serves clients, reloads its configuration, and stops.
//
//	reserve the path ── admin listens ── stores open, in parallel ── pool joins ── socket listens, READY
//	SIGHUP: reload          the end: socket gone, requests drain, pool left, stores close, path free
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// Options are what a daemon takes from the process around it.
type Options struct {
	Config *config.File // checked
	// Load reads the configuration anew. Reload asks for it; nil: never.
	Load    func() (*config.File, error)
	Reload  <-chan struct{}
	Version string
	Stderr  io.Writer           // the log
	Getenv  func(string) string // os.Getenv, for the service manager
	// Fabric has the RDMA devices, for tests; nil: this machine's.
	Fabric fabric.Fabric
	// Began is called with the address of the admin interface once that listens, if
	// there is one. May be nil.
	Began func(address string)
}

// daemon is one run. Only run's goroutine uses it.
type daemon struct {
	o      Options
	config *config.File
	level  slog.LevelVar
	log    *slog.Logger
	notify *notifier
	view   *admin.View
	stores []*engine.Store
	memory *memory.Tier // nil: none
	node   *node.Node
	pool   *inPool // nil: none
}

// Run serves until ctx ends, then stops. It returns nil when everything was closed
// in time. After an error that matches ErrStuck goroutines may be left: the process
// must end.
func Run(ctx context.Context, o Options) error {
	d := &daemon{o: o, config: o.Config, view: admin.NewView(o.Version)}
	level, err := o.Config.Log.SlogLevel()
	if err != nil {
		return err
	}
	d.level.Set(level)
	out := &untilEnd{to: o.Stderr}
	defer out.end()
	d.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: &d.level}))
	if o.Config.Log.Format == "json" {
		d.log = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: &d.level}))
	}
	if d.notify, err = newNotifier(o.Getenv("NOTIFY_SOCKET")); err != nil {
		return err
	}
	defer d.notify.close()
	if err := checkFiles(o.Config); err != nil {
		return err
	}
	path, err := node.Reserve(o.Config.Socket.Path)
	if err != nil {
		return err
	}
	defer path.Close()
	if err := d.configureView(); err != nil {
		return err
	}
	server, err := d.startAdmin(ctx)
	if err != nil {
		return err
	}
	if server != nil {
		defer server.Close()
	}
	stopOperators, err := d.startOperators()
	if err != nil {
		return err
	}
	defer stopOperators()
	stopWatchdog := d.startWatchdog()
	defer stopWatchdog()
	return d.run(ctx, path)
}

// untilEnd writes until the end of Run: what the gossip library has under way then may
// still log.
type untilEnd struct {
	mu   sync.Mutex
	to   io.Writer
	over bool
}

func (u *untilEnd) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return len(b), nil
	}
	return u.to.Write(b)
}

func (u *untilEnd) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}

// run opens, serves and closes.
func (d *daemon) run(ctx context.Context, path *node.Reservation) error {
	if err := d.open(ctx); err != nil {
		d.notify.send("STOPPING=1")
		return errors.Join(err, d.closeStores())
	}
	if ctx.Err() != nil {
		d.log.Info("asked to stop while starting")
		return d.closeStores()
	}
	err := d.openMemory()
	if err != nil {
		return errors.Join(err, d.closeStores())
	}
	defer d.closeMemory()
	if err := d.openPool(); err != nil {
		return errors.Join(err, d.closeStores())
	}
	served, err := d.listen(path)
	if err != nil {
		return errors.Join(err, d.abandon(), d.closeStores())
	}
	err = d.serve(ctx, served)
	return errors.Join(err, d.stop(path))
}

// listen makes the node and lets clients in.
func (d *daemon) listen(path *node.Reservation) (served chan error, err error) {
	o, err := d.config.NodeOptions()
	if err != nil {
		return nil, err
	}
	o.Stores, o.Memory, o.Server, o.Logger = d.stores, d.memory, "spillway "+d.o.Version, d.log
	if d.pool != nil {
		o.Pool = d.pool.pool
	}
	if d.node, err = node.New(o); err != nil {
		return nil, err
	}
	if d.pool != nil {
		d.view.SetPool(&operator{d.pool, d.node})
	}
	group, err := d.config.Socket.GroupID()
	if err != nil {
		return nil, err
	}
	l, err := path.Listen(d.config.Socket.Mode.FileMode, group)
	if err != nil {
		return nil, err
	}
	served = make(chan error, 1)
	go func() { served <- d.node.Serve(l) }()
	d.view.SetNode(d.node, d.missing())
	d.view.SetReady()
	d.log.Info("serving", "socket", d.config.Socket.Path, "stores", len(d.stores))
	d.notify.send("READY=1", fmt.Sprintf("STATUS=serving %d stores on %s", len(d.stores), d.config.Socket.Path))
	return served, nil
}

// abandon gives up a node that no client has come to, if there is one, and the pool.
func (d *daemon) abandon() error {
	if d.node != nil {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.node.Close(over) // nothing runs that could be cut short
	}
	return d.pool.abandon()
}

// serve waits for the end, and reloads meanwhile.
func (d *daemon) serve(ctx context.Context, served <-chan error) error {
	for {
		select {
		case err := <-served:
			return err
		case <-d.o.Reload:
			d.notify.send(reloading()...)
			d.reload()
			d.notify.send("READY=1")
		case <-d.pool.refused():
			return d.pool.gossip.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

// startAdmin listens for the operator; nil without an address.
func (d *daemon) startAdmin(ctx context.Context) (*admin.Server, error) {
	a := &d.config.Admin
	if a.Address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.Address)
	if err != nil {
		return nil, fmt.Errorf("admin.address %s: %w", a.Address, err)
	}
	d.log.Info("the admin interface listens", "address", l.Addr().String(), "changes", d.config.Admin.Token.String() != "" || d.config.Admin.TokenFile != "")
	if d.o.Began != nil {
		d.o.Began(l.Addr().String())
	}
	return admin.Start(l, d.view, admin.ServerOptions{AnyHost: a.AllowRemote, Pprof: a.Pprof, Logger: d.log}), nil
}

// configureView takes over what the configuration says about the view.
func (d *daemon) configureView() error {
	token, err := d.config.Admin.Secret()
	if err != nil {
		return err
	}
	d.view.Configure(admin.Gate{Budget: d.config.Gate.Budget.Duration, ComputePerToken: d.config.Gate.PromptToken()}, token)
	return nil
}

// startWatchdog sends signs of life while the node answers, if somebody waits for
// them; stop ends it.
func (d *daemon) startWatchdog() (stop func()) {
	every := watchdogTime(d.o.Getenv("WATCHDOG_USEC"), d.o.Getenv("WATCHDOG_PID")) / 2
	if d.notify == nil || every == 0 {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			if d.view.Answers(every) {
				d.notify.send("WATCHDOG=1")
			} else {
				d.log.Error("the node does not answer")
			}
			select {
			case <-ticker.C:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
