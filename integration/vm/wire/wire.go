// Package wire is what a host and the first process of its virtual machine say to each
// other: JSON values, one after the other, over a virtio serial port.
package wire

// PortName is the name of the serial port.
const PortName = "spillway"

// Kinds of orders, of the host.
const (
	Start  = "start"  // Order.Argv
	Signal = "signal" // to the process group of the order with this ID
	Off    = "off"    // sync, answer with Report.Kind Off, power off
)

// Kinds of reports, of the machine. Start and Signal have none if they go well.
const (
	Ready  = "ready"  // the machine is set up; Output is what its set-up said
	Failed = "failed" // no process, or no set-up if ID is 0; Output says why
	Output = "output" // of a process
	Exit   = "exit"   // a process has ended, all of its output is told
)

// Order is one line to the machine.
type Order struct {
	Kind         string   `json:"kind"`
	ID           int      `json:"id,omitempty"` // of the process, chosen by the host, from 1
	Argv         []string `json:"argv,omitempty"`
	Env          []string `json:"env,omitempty"` // besides the machine's own
	Dir          string   `json:"dir,omitempty"`
	UID          int      `json:"uid,omitempty"`          // and group; 0: the superuser
	MemlockBytes int64    `json:"memlockBytes,omitempty"` // 0: no limit
	Signal       int      `json:"signal,omitempty"`
}

// Report is one line of the machine.
type Report struct {
	Kind   string `json:"kind"`
	ID     int    `json:"id,omitempty"`
	Output []byte `json:"output,omitempty"`
	Code   int    `json:"code,omitempty"` // of Exit; 128 and the signal's number if one ended it
}
