package main

import (
	"context"
	"errors"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/cmd/spillway/daemon"
)

type serveCmd struct {
	Config        string        `placeholder:"FILE" complete:"file" help:"The configuration, TOML (docs/configuration.md). Flags override it."`
	Dir           []string      `placeholder:"DIR" complete:"dir" help:"A store's directory, one for each drive; given again for more. Replaces the stores of the file."`
	Capacity      byteSize      `placeholder:"SIZE" help:"Most that each store may take on disk; needed for a new store."`
	Socket        string        `placeholder:"PATH" help:"Where clients connect (/run/spillway/spillway.sock)."`
	Admin         string        `placeholder:"ADDRESS" help:"Where metrics and health are served, such as 127.0.0.1:9470; none without it."`
	Pprof         bool          `help:"Serve Go's profiles there, too."`
	Pool          string        `placeholder:"ID" help:"Be a node of the pool with this ID (docs/pool.md)."`
	Join          []string      `placeholder:"HOST:PORT" help:"Gossip addresses of some nodes of the pool, after commas; a pool's first node gives none."`
	PoolName      string        `placeholder:"NAME" help:"This node's name in the pool (the host's)."`
	PoolListen    string        `placeholder:"ADDRESS" help:"Where other nodes' data connections are taken (:7420); their gossip at the port behind it."`
	LogLevel      string        `placeholder:"LEVEL" help:"The least that is logged: debug, info, warn or error."`
	BufferedIO    bool          `name:"buffered-io" help:"Allow buffered I/O where the file system has no direct I/O."`
	AnyFilesystem bool          `name:"any-filesystem" help:"Allow file systems other than ext4 and XFS."`
	StopTime      time.Duration `placeholder:"TIME" help:"How long requests under way may take at the end (10s)."`
}

// Help is shown under the flags.
func (*serveCmd) Help() string {
	return "--dir DIR alone needs no file. SIGTERM or SIGINT stops in order, a second one at once; SIGHUP reads the configuration again. " +
		"Under systemd with Type=notify it says when it is ready. docs/operations.md has more."
}

// load reads the configuration, if there is one, and puts the flags over it.
func (c *serveCmd) load() (*config.File, error) {
	f, err := config.Parse("", nil)
	if c.Config != "" {
		f, err = loadConfig(c.Config)
	}
	if err != nil {
		return nil, err
	}
	if len(c.Dir) > 0 {
		f.Stores = nil
		for _, dir := range c.Dir {
			f.Stores = append(f.Stores, config.NewStore(dir))
		}
	}
	for i := range f.Stores {
		s := &f.Stores[i]
		override(&s.Capacity, config.Size(c.Capacity))
		override(&s.BufferedIO, c.BufferedIO)
		override(&s.AnyFilesystem, c.AnyFilesystem)
	}
	override(&f.Socket.Path, c.Socket)
	override(&f.Admin.Address, c.Admin)
	override(&f.Admin.Pprof, c.Pprof)
	override(&f.Pool.ID, c.Pool)
	override(&f.Pool.Name, c.PoolName)
	override(&f.Pool.Bind, c.PoolListen)
	if len(c.Join) > 0 {
		f.Pool.Seeds = c.Join
	}
	override(&f.Log.Level, c.LogLevel)
	override(&f.Limits.StopTime.Duration, c.StopTime)
	return f, nil
}

// override replaces a setting by a flag that is given.
func override[T comparable](setting *T, flag T) {
	var none T
	if flag != none {
		*setting = flag
	}
}

func (c *serveCmd) run(ctx context.Context, st *state) error {
	f, err := c.load()
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return err
	}
	hangups, stop := st.hangups()
	defer stop()
	o := daemon.Options{Config: f, Reload: hangups, Version: versionOf(st).Version, Stderr: st.stderr, Getenv: st.getenv, Fabric: st.fabric}
	if c.Config != "" {
		o.Load = c.load
	}
	err = daemon.Run(ctx, o)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}
