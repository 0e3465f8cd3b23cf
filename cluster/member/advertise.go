package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// lookupTimeout bounds one look-up of a name.
const lookupTimeout = 5 * time.Second

// resolve is what a host stands for: itself, or all addresses of a name.
func resolve(ctx context.Context, r Resolver, a Address) ([]netip.AddrPort, error) {
	if ip, ok := a.IP(); ok {
		return []netip.AddrPort{netip.AddrPortFrom(ip, a.Port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ips, err := r.LookupNetIP(ctx, "ip", a.Host)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Zone() == "" && len(list) < seedAddressesMax {
			list = append(list, netip.AddrPortFrom(ip, a.Port))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no address", a.Host)
	}
	return list, nil
}

// seedAddressesMax bounds what one name may stand for.
const seedAddressesMax = 256

// chooseAdvertise is the address under which others reach what is bound at bound.
func chooseAdvertise(ctx context.Context, o *Options, bound netip.AddrPort) (netip.AddrPort, error) {
	if o.Advertise != "" {
		a, err := ParseAddress(o.Advertise, bound.Port())
		if err != nil {
			return netip.AddrPort{}, err
		}
		list, err := resolve(ctx, o.Resolver, a)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("the advertised address %s: %w", a, err)
		}
		return list[0], nil
	}
	if !bound.Addr().IsUnspecified() {
		return bound, nil
	}
	ip, err := chooseIP(ctx, o, bound.Addr().Is4())
	return netip.AddrPortFrom(ip, bound.Port()), err
}

// chooseIP is the address of this machine from which packets to the seeds would leave; else
// to the world; else the best one that an interface has. So it needs no private addresses
// and asks nobody: the system's routes know.
func chooseIP(ctx context.Context, o *Options, only4 bool) (netip.Addr, error) {
	var towards []netip.AddrPort
	for _, seed := range o.Seeds {
		if a, err := ParseAddress(seed, DefaultPort); err == nil {
			list, _ := resolve(ctx, o.Resolver, a) // what has no address now is tried later
			towards = append(towards, list...)
		}
	}
	// Addresses of documentation: nothing is sent there.
	towards = append(towards, netip.MustParseAddrPort("192.0.2.1:9"), netip.MustParseAddrPort("[2001:db8::1]:9"))
	for _, to := range towards {
		if from, ok := sourceTowards(to); ok && (from.Is4() || !only4) {
			return from, nil
		}
	}
	ifs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	var ips []netip.Addr
	for _, i := range ifs {
		if p, err := netip.ParsePrefix(i.String()); err == nil {
			ips = append(ips, p.Addr().Unmap())
		}
	}
	return bestOf(ips, only4)
}

// sourceTowards is the address from which a packet to this one would leave.
func sourceTowards(to netip.AddrPort) (netip.Addr, bool) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}, false
	}
	defer c.Close()
	from := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return from, from.IsValid() && !from.IsUnspecified() && from.Zone() == "" && !from.IsLinkLocalUnicast()
}

// bestOf prefers addresses that others may reach: no loopback, then IPv4.
func bestOf(ips []netip.Addr, only4 bool) (netip.Addr, error) {
	var best netip.Addr
	worth := func(ip netip.Addr) int {
		switch {
		case !ip.IsValid() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || only4 && !ip.Is4():
			return 0
		case ip.IsLoopback() && ip.Is6():
			return 1
		case ip.IsLoopback():
			return 2
		case ip.Is6():
			return 3
		}
		return 4
	}
	for _, ip := range ips {
		if worth(ip) > worth(best) {
			best = ip
		}
	}
	if worth(best) == 0 {
		return best, errors.New("this machine has no address that others could reach: say what to advertise")
	}
	return best, nil
}
