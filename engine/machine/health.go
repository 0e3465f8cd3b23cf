package machine

import (
	"encoding/binary"
	"path/filepath"
	"strconv"
	"strings"
)

// Health is how a drive is. Numbers are -1 where nobody tells.
type Health struct {
	TemperatureC int64
	// WornPercent is how much of its life is used up, by its maker's estimate; it
	// can exceed 100.
	WornPercent int64
	// WrittenBytes is all that the drive was ever asked to write.
	WrittenBytes int64
}

// Health asks the drive where the process may (NVMe's health log, as root), else
// sysfs: a sensor (hwmon) for the temperature, the life time of eMMC and UFS.
func (s System) Health(d Drive) Health {
	h := Health{-1, -1, -1}
	if s.Root == This().Root && strings.HasPrefix(d.Name, "nvme") {
		if log, err := healthLog("/dev/" + d.Name); err == nil {
			h = readHealthLog(log)
		}
	}
	if h.TemperatureC < 0 {
		h.TemperatureC = s.temperature(d)
	}
	if h.WornPercent < 0 {
		h.WornPercent = s.lifeTime(d)
	}
	return h
}

// temperature reads the first sensor of a drive, in thousandths of a degree.
func (s System) temperature(d Drive) int64 {
	folders := []string{filepath.Join(d.dir, "device")} // nvme0n1/device is the controller nvme0
	if match := nvmeName.FindStringSubmatch(d.Name); match != nil {
		folders = append(folders, filepath.Join("sys/class/nvme", match[1]))
	}
	for _, folder := range folders {
		for _, where := range []string{folder, filepath.Join(folder, "hwmon")} {
			for _, name := range s.List(where) {
				if !strings.HasPrefix(name, "hwmon") {
					continue
				}
				if milli := s.Number(where, name, "temp1_input"); milli >= 0 {
					return (milli + 500) / 1000
				}
			}
		}
	}
	return -1
}

// lifeTime reads eMMC's estimate, such as "0x01 0x02": tenths of the life that are
// used up, of two kinds of memory; the worse one counts.
func (s System) lifeTime(d Drive) int64 {
	worst := int64(-1)
	for _, tenths := range strings.Fields(s.Text(d.dir, "device/life_time")) {
		if n, err := strconv.ParseInt(tenths, 0, 32); err == nil && n > 0 {
			worst = max(worst, n*10)
		}
	}
	return worst
}

// healthLogBytes is the length of NVMe's health log.
const healthLogBytes = 512

// readHealthLog reads, of the log: bytes 1..2 the temperature in kelvin, byte 5 the
// percentage used, bytes 48..63 the data units written, 512,000 bytes each.
func readHealthLog(log []byte) Health {
	const kelvin, dataUnitBytes = 273, 512_000
	h := Health{TemperatureC: int64(binary.LittleEndian.Uint16(log[1:])) - kelvin, WornPercent: int64(log[5]), WrittenBytes: -1}
	const unitsMax = (1<<63 - 1) / dataUnitBytes
	if units := binary.LittleEndian.Uint64(log[48:]); units <= unitsMax && binary.LittleEndian.Uint64(log[56:]) == 0 {
		h.WrittenBytes = int64(units) * dataUnitBytes
	}
	return h
}
