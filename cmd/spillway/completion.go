package main

import (
	"context"
	"io"

	"github.com/spillway-kv/spillway/cmd/spillway/shell"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown under the flags.
func (*completionCmd) Help() string {
	return "The first lines of the script say where to put it. For this shell alone: source <(spillway completion bash)."
}

func (c *completionCmd) run(_ context.Context, st *state) error {
	script, err := shell.Script(newParser(st, func(int) {}).Model, c.Shell)
	if err != nil {
		return err
	}
	_, err = io.WriteString(st.stdout, script)
	return err
}
