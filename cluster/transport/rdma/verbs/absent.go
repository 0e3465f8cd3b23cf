//go:build !(verbs && linux && cgo)

package verbs

import (
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// Built says whether this build can use RDMA devices.
const Built = false

// New is a fabric without devices: this build has no RDMA.
func New() fabric.Fabric { return absent{} }

type absent struct{}

var errAbsent = fmt.Errorf("%w: this program is built without it (make build TAGS=verbs, which is CGO_ENABLED=1 go build -tags verbs, on Linux with libibverbs-dev or rdma-core-devel)", fabric.ErrNone)

func (absent) Ports() ([]fabric.Port, error) { return nil, errAbsent }

func (absent) Open(fabric.Port, fabric.GID) (fabric.Device, error) { return nil, errAbsent }
