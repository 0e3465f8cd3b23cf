package gpu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// text is what stands before the first zero byte; a char of C has a sign or not.
func text[char int8 | uint8](chars []char) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// busID writes the address of a PCI device as /sys does: NVML writes domains
// with eight digits, and both may use capitals.
func busID(id string) string {
	id = strings.ToLower(id)
	domain, rest, ok := strings.Cut(id, ":")
	if !ok {
		return id
	}
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + rest
}

// pciDevice is a device below root, which is put before /sys and /proc.
type pciDevice struct{ root, id string }

func (d pciDevice) text(name string) string {
	return readText(d.root, "sys/bus/pci/devices", d.id, name)
}

func readText(path ...string) string {
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// numaNode is -1 where the machine does not tell, as many virtual ones do.
func (d pciDevice) numaNode() int {
	if n, err := strconv.Atoi(d.text("numa_node")); err == nil {
		return n
	}
	return -1
}

// link is the PCIe link to the device, as far as /sys knows it.
func (d pciDevice) link() Link {
	width := func(name string) int {
		n, err := strconv.Atoi(d.text(name))
		if err != nil || n > 64 { // 255: unknown
			return 0
		}
		return n
	}
	return Link{
		Generation: generation(d.text("current_link_speed")), Width: width("current_link_width"),
		GenerationMax: generation(d.text("max_link_speed")), WidthMax: width("max_link_width"),
	}
}

// generation of PCIe with this speed, such as "32.0 GT/s PCIe"; 0: unknown.
func generation(speed string) int {
	number, _, _ := strings.Cut(speed, " ")
	switch strings.TrimSuffix(number, ".0") {
	case "2.5":
		return 1
	case "5":
		return 2
	case "8":
		return 3
	case "16":
		return 4
	case "32":
		return 5
	case "64":
		return 6
	}
	return 0
}
