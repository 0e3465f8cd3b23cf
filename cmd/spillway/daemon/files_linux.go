package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// filesKept are descriptors that are neither a client's nor a store's.
const filesKept = 64

// filesPool are those of a pool: connections from and to some dozen nodes.
const filesPool = 512

// checkFiles refuses to start where the system allows too few open files for the
// clients that the configuration allows; what stores need they check themselves.
// (The runtime has raised the soft limit to the hard one.)
func checkFiles(c *config.File) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	// A client has its socket, and a descriptor that it sends for a moment.
	need := uint64(2*c.Limits.Connections + filesKept)
	if c.Pool.ID != "" {
		need += filesPool
	}
	if limit.Cur < need {
		return &config.Error{Text: fmt.Sprintf("the system allows %d open files, %d clients need %d and the stores some more: raise the limit (ulimit -n, LimitNOFILE), or lower limits.connections",
			limit.Cur, c.Limits.Connections, need)}
	}
	return nil
}
