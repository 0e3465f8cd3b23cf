//go:build !cgo

package gpu

import "errors"

// OpenMonitor gives a Monitor by /sys: this build has no NVML, which needs cgo.
func OpenMonitor(...string) (m Monitor, why error) {
	return SysfsMonitor("/"), errors.New("gpu: this build is without cgo, which NVML needs; build with CGO_ENABLED=1")
}
