package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pelletier/go-toml/v2"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/fio/units"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Say whether a daemon could start with a configuration, and what its write budget comes to; touches no store."`
	Show  configShowCmd  `cmd:"" help:"Show every setting with its effective value; tokens are hidden."`
}

type configCheckCmd struct {
	File string `arg:"" complete:"file" help:"The configuration."`
}

func (c *configCheckCmd) run(_ context.Context, st *state) error {
	f, err := loadConfig(c.File)
	if err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return inFile(c.File, err)
	}
	if _, err = fmt.Fprintf(st.stdout, "%s: ok, %s, %s\n", c.File, units.Count(int64(len(f.Stores)), "store"), units.Count(int64(len(f.Namespaces)), "namespace")); err != nil {
		return err
	}
	for _, line := range f.Explain() {
		if _, err = fmt.Fprintln(st.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// loadConfig reads a configuration; that there is none has a remedy of its own.
func loadConfig(path string) (*config.File, error) {
	f, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{code: exitError, message: err.Error(), remedy: "check the path; spillway config show prints the defaults to begin with", cause: err}
	}
	return f, err
}

// inFile names the file that a check of the whole is about.
func inFile(path string, err error) error {
	if wrong, ok := err.(*config.Error); ok && wrong.File == "" {
		return &config.Error{File: path, Text: wrong.Text}
	}
	return err
}

type configShowCmd struct {
	jsonFlag
	File string `arg:"" optional:"" complete:"file" help:"The configuration; without one the defaults are shown."`
}

// configReport is the JSON of a configuration.
type configReport struct {
	Type   string         `json:"type"`   // config
	Config map[string]any `json:"config"` // tables and keys as in the file, docs/configuration.md
}

func (*configShowCmd) reports() []any { return []any{configReport{}} }

func (c *configShowCmd) run(_ context.Context, st *state) error {
	f, err := config.Parse("", nil)
	if c.File != "" {
		f, err = loadConfig(c.File)
	} else if err == nil {
		f.Stores = []config.Store{config.NewStore("")} // so that its defaults show
	}
	if err != nil {
		return err
	}
	text, err := f.TOML()
	if err != nil {
		return err
	}
	if !c.JSON {
		_, err = st.stdout.Write(text)
		return err
	}
	// By way of the TOML: the same values, written the same.
	r := configReport{Type: "config"}
	if err := toml.Unmarshal(text, &r.Config); err != nil {
		return err
	}
	return printJSON(st.stdout, r)
}
