package doctor

import (
	"net"
	"net/netip"
)

// networksOf are those that a network interface has an address in, as fabric.GID has them.
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
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || p.Addr().IsLinkLocalUnicast():
		case p.Addr().Is4(): // as addresses of ports have it, in 128 bits
			all = append(all, netip.PrefixFrom(netip.AddrFrom16(p.Addr().As16()), p.Bits()+96).Masked())
		default:
			all = append(all, p.Masked())
		}
	}
	return all
}
