//go:build !(verbs && linux && cgo)

package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
)

func TestAbsent(t *testing.T) {
	if verbs.Built {
		t.Error("Built is true")
	}
	ports, err := verbs.New().Ports()
	if len(ports) != 0 || !errors.Is(err, fabric.ErrNone) || !strings.Contains(err.Error(), "-tags verbs") {
		t.Errorf("Ports: %v, %v", ports, err)
	}
	if _, err := verbs.New().Open(fabric.Port{}, fabric.GID{}); !errors.Is(err, fabric.ErrNone) {
		t.Errorf("Open: %v", err)
	}
}
