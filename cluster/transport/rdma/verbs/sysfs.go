//go:build verbs && linux && cgo

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// sysfsDir is where the kernel tells of RDMA devices: /sys/class/infiniband.
type sysfsDir string

// read gives a file's text; that of one that is not there is empty.
func (d sysfsDir) read(parts ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{string(d)}, parts...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// node is a device's NUMA node, -1 if that is not known.
func (d sysfsDir) node(device string) int {
	n, err := strconv.Atoi(d.read(device, "device", "numa_node"))
	if err != nil {
		return -1
	}
	return n
}

// rateGbps is a port's rate, out of texts such as "100 Gb/sec (4X EDR)"; 0: not known.
func (d sysfsDir) rateGbps(device string, port uint8) float64 {
	number, unit, _ := strings.Cut(d.read(device, "ports", strconv.Itoa(int(port)), "rate"), " ")
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") {
		return 0
	}
	return rate
}

// gids are the addresses in use of each port of a device, where the library cannot tell.
func (d sysfsDir) gids(device string, ports int) (map[uint8][]fabric.GID, error) {
	all := make(map[uint8][]fabric.GID)
	for port := 1; port <= ports; port++ {
		dir := filepath.Join(device, "ports", strconv.Itoa(port))
		entries, err := os.ReadDir(filepath.Join(string(d), dir, "gids"))
		if err != nil {
			return nil, fmt.Errorf("list the addresses of port %d: %w", port, err)
		}
		for _, e := range entries {
			index, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			address, err := netip.ParseAddr(d.read(dir, "gids", e.Name()))
			if err != nil || address.IsUnspecified() {
				continue
			}
			kind, ok := gidTypes[d.read(dir, "gid_attrs", "types", e.Name())]
			if !ok { // not in use
				continue
			}
			if kind == fabric.RoCEv1 && d.read(dir, "link_layer") == "InfiniBand" {
				kind = fabric.InfiniBand
			}
			all[uint8(port)] = append(all[uint8(port)],
				newGID(index, kind, netip.AddrFrom16(address.As16()), d.read(dir, "gid_attrs", "ndevs", e.Name())))
		}
		slices.SortFunc(all[uint8(port)], func(a, b fabric.GID) int { return a.Index - b.Index })
	}
	return all, nil
}

var gidTypes = map[string]fabric.GIDType{"IB/RoCE v1": fabric.RoCEv1, "RoCE v2": fabric.RoCEv2}

// newGID fills in what follows from the rest.
func newGID(index int, kind fabric.GIDType, address netip.Addr, network string) fabric.GID {
	g := fabric.GID{Index: index, Type: kind, Address: address}
	if kind == fabric.InfiniBand {
		g.Networks = []netip.Prefix{netip.PrefixFrom(address, 64).Masked()}
		return g
	}
	g.Interface = network
	if i, err := net.InterfaceByName(network); err == nil {
		if addresses, err := i.Addrs(); err == nil {
			g.Networks = networksOf(addresses)
		}
	}
	return g
}

func interfaceName(index int) string {
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return ""
	}
	return i.Name
}

// networksOf are the networks in which an interface has addresses, all of 128 bits.
// Link-local ones are everywhere, and say nothing.
func networksOf(addresses []net.Addr) (networks []netip.Prefix) {
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		address, ok := netip.AddrFromSlice(n.IP.To16())
		ones, bits := n.Mask.Size()
		if !ok || bits == 0 || address.Unmap().IsLinkLocalUnicast() {
			continue
		}
		network := netip.PrefixFrom(address, ones+128-bits).Masked()
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	return networks
}

// whyNoList says why the library lists nothing at all.
func (d sysfsDir) whyNoList(err error) string {
	if unsupported(err) {
		return fmt.Sprintf("libibverbs is here, but the kernel has no RDMA (%v): load the device's driver, and ib_uverbs", err)
	}
	return fmt.Sprintf("libibverbs cannot list the devices: %v", err)
}

// whyNoDevice says why the library's list is empty.
func (d sysfsDir) whyNoDevice() string {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("libibverbs lists no device, and what the kernel has cannot be seen: %v", err)
	}
	if len(entries) == 0 {
		return "libibverbs is here, and the kernel has RDMA, but no device"
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return fmt.Sprintf("the kernel has %s, but libibverbs cannot use it: load ib_uverbs, and install the device's plug-in (Debian: ibverbs-providers, RHEL: libibverbs)",
		strings.Join(names, ", "))
}
