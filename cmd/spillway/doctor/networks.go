package doctor

import (
	"net"
	"net/netip"
)

// networksOf are those that a network interface has an address in.
func networksOf(name string) (all []netip.Prefix) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}
