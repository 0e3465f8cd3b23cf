package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/fio/origin"
)

// daemonSource is where the counters of a daemon are to be had: at its socket, or at its
// admin interface.
type daemonSource struct{ socket, admin string }

// daemonNamed reads a path, or a host and port.
func daemonNamed(name string) daemonSource {
	if strings.Contains(name, "/") {
		return daemonSource{socket: name}
	}
	return daemonSource{admin: name}
}

func (d daemonSource) String() string { return d.socket + d.admin }

func (d daemonSource) counts(ctx context.Context) (origin.Counts, error) {
	ctx, cancel := quick(ctx)
	defer cancel()
	if d.socket == "" {
		var state json.RawMessage
		if err := (&operator{address: d.admin}).ask(ctx, "/v1/stat", nil, nil, &state); err != nil {
			return origin.Counts{}, err
		}
		return origin.Parse(state)
	}
	c, err := client.Dial(ctx, client.Options{Path: d.socket, Name: "spillway fio"})
	if err != nil {
		return origin.Counts{}, err
	}
	defer c.Close()
	return origin.Read(ctx, c)
}
