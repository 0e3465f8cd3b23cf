//go:build !cgo

package gpu

// OpenMonitor gives a Monitor by /sys; Missing is ErrNotBuilt.
func OpenMonitor(...string) Monitor { return SysfsMonitor("/", ErrNotBuilt) }
