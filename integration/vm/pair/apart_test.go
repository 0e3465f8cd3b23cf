package pair

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// orders is the folder in which the host of two machines makes the files "flow" and "end".
const orders = "/tmp/orders"

// TestApart is one of two machines, told apart by the environment's SPILLWAY_VM_ROLE, 1 or 2.
// Its daemon reads the blocks of the other's while the host does what it likes to either
// machine. When the host wants it, it says that blocks come by RDMA.
func TestApart(t *testing.T) {
	role := map[string]int{"1": 1, "2": 2}[os.Getenv("SPILLWAY_VM_ROLE")]
	if role == 0 {
		t.Skip("skipped: not one of two machines")
	}
	mine, other := space{"of-1", 1 << 20, 24}, space{"of-2", 1 << 20, 24}
	if role == 2 {
		mine, other = other, mine
	}
	d := newDaemon(t, role, mountDrive(t, "/mnt/apart")+"/store")
	d.device = 1
	d.configure()
	d.start()
	mine.put(t, d)
	travels(t, "rdma", d)
	l := startLoad(t, other, d, readers{6, 0, 3 * time.Second, 8}, uint64(role))
	for step := 0; ; {
		switch {
		case ordered("flow"):
			step++
			flow(t, d)
			fmt.Println("FLOWS", step)
		case ordered("end"):
			l.end()
			w, err := d.way()
			t.Logf("by %s: %+v, %v", w.Name, w, err)
			return
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// ordered reports whether the host has made the file, and removes it.
func ordered(name string) bool { return os.Remove(orders+"/"+name) == nil }

// flow waits until some more blocks have come by RDMA.
func flow(t *testing.T, d *daemon) {
	t.Helper()
	var before uint64
	eventually(t, "blocks come by RDMA", func() error {
		w, err := d.way()
		if err != nil {
			return err
		}
		if w.Name != "rdma" {
			return fmt.Errorf("by %s: %s", w.Name, w.Why)
		}
		if before == 0 {
			before = w.Blocks
		}
		if w.Blocks < before+8 {
			return fmt.Errorf("%d blocks, %d at first", w.Blocks, before)
		}
		return nil
	})
}
