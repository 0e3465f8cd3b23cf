package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/engine/planted"
)

type versionCmd struct {
	jsonFlag
}

// versionReport says which program this is.
type versionReport struct {
	Type     string `json:"type"`           // version
	Version  string `json:"version"`        // of the module; (devel) or unknown for a build of one's own
	Revision string `json:"revision"`       // commit it was built from
	Modified bool   `json:"modified"`       // built from sources that differ from the revision
	Go       string `json:"go"`             // release of Go
	Platform string `json:"platform"`       // operating system and processor
	Tags     string `json:"tags"`           // build tags, comma separated
	Cgo      bool   `json:"cgo"`            // built with cgo
	Verbs    bool   `json:"rdma_verbs"`     // it can use RDMA devices, where libibverbs and a device are there (docs/rdma.md)
	Planted  bool   `json:"planted_faults"` // a test build: never use it with data
}

func (*versionCmd) reports() []any { return []any{versionReport{}} }

func (c *versionCmd) run(_ context.Context, st *state) error {
	v := versionOf(st)
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
	_, err := fmt.Fprintf(st.stdout, "spillway %s (revision %s)\n%s %s, cgo %t, build tags %s, rdma verbs %t, planted faults %t\n",
		v.Version, revision, v.Go, v.Platform, v.Cgo, tags, v.Verbs, v.Planted)
	return err
}

// versionOf is what the program was built from.
func versionOf(st *state) versionReport {
	v := versionReport{Type: "version", Version: "unknown", Revision: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Verbs: verbs.Built, Planted: planted.Set(planted.None)}
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
	return v
}
