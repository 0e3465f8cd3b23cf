package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spillway-kv/spillway/engine/planted"
)

type versionCmd struct {
	jsonFlag
}

// versionReport says which program this is.
type versionReport struct {
	Type     string `json:"type"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"` // built from sources that differ from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Tags     string `json:"tags"`
	Cgo      bool   `json:"cgo"`
	Planted  bool   `json:"planted_faults"` // a test build: never use it with data
}

func (c *versionCmd) run(_ context.Context, st *state) error {
	v := versionReport{Type: "version", Version: "unknown", Revision: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Planted: planted.Set(planted.None)}
	if info, ok := st.buildInfo(); ok {
		v.Version = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			case "-tags":
				v.Tags = s.Value
			case "CGO_ENABLED":
				v.Cgo = s.Value == "1"
			}
		}
	}
	if c.JSON {
		return printJSON(st.stdout, v)
	}
	revision := v.Revision
	if v.Modified {
		revision += ", modified"
	}
	tags := v.Tags
	if tags == "" {
		tags = "none"
	}
	_, err := fmt.Fprintf(st.stdout, "spillway %s (revision %s)\n%s %s, cgo %t, build tags %s, planted faults %t\n",
		v.Version, revision, v.Go, v.Platform, v.Cgo, tags, v.Planted)
	return err
}
