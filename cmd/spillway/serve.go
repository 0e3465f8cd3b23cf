package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
)

type serveCmd struct {
	Dir           []string      `required:"" placeholder:"DIR" complete:"dir" help:"A store's directory, one for each drive; given again for more."`
	Capacity      byteSize      `placeholder:"SIZE" help:"Most that each store may take on disk; needed for a new store."`
	Socket        string        `default:"/run/spillway/spillway.sock" placeholder:"PATH" help:"Where clients connect."`
	BufferedIO    bool          `name:"buffered-io" help:"Allow buffered I/O where the file system has no direct I/O."`
	AnyFilesystem bool          `name:"any-filesystem" help:"Allow file systems other than ext4 and XFS."`
	StopTime      time.Duration `default:"10s" help:"How long requests under way may take at the end."`
}

func (c *serveCmd) run(ctx context.Context, st *state) error {
	log := slog.New(slog.NewTextHandler(st.stderr, nil))
	o := node.Options{Server: "spillway " + versionOf(st).Version, Logger: log}
	defer func() {
		for _, s := range o.Stores {
			if err := s.Close(); err != nil {
				log.Error("a store was not closed well", "cause", err)
			}
		}
	}()
	for _, dir := range c.Dir {
		s, err := engine.Open(engine.Options{Dir: dir, CapacityBytes: int64(c.Capacity), BufferedIO: c.BufferedIO, AnyFileSystem: c.AnyFilesystem, Logger: log})
		if err != nil {
			return err
		}
		o.Stores = append(o.Stores, s)
	}
	n, err := node.New(o)
	if err != nil {
		return err
	}
	l, err := node.Listen(c.Socket, 0o660)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(l.UnixListener) }()
	log.Info("serving", "socket", c.Socket, "stores", len(o.Stores))
	select {
	case err = <-served:
	case <-ctx.Done():
		log.Info("stopping")
	}
	last, cancel := context.WithTimeout(context.Background(), c.StopTime)
	defer cancel()
	if closeErr := n.Close(last); closeErr != nil {
		log.Warn("requests were cut short", "cause", closeErr)
	}
	if closeErr := l.Close(); closeErr != nil && err == nil && ctx.Err() == nil {
		err = fmt.Errorf("close the socket: %w", closeErr)
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}
