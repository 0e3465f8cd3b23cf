//go:build !cgo

package gpu

// OpenMonitor gives a Monitor by /sys; why is ErrNotBuilt.
func OpenMonitor(...string) (m Monitor, why error) { return SysfsMonitor("/"), ErrNotBuilt }
