package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

func (p *Pool) checkAddresses() *keyError {
	for key, bind := range map[string]string{"bind": p.Bind, "gossip_bind": p.GossipBind} {
		if _, _, err := splitAddress(bind, ""); err != nil && (bind != "" || key == "bind") {
			return wrong(key, "is %q: %v", bind, err)
		}
	}
	if _, port, err := splitAddress(p.Bind, ""); err == nil && p.Bind == p.GossipBind && port != "0" {
		return wrong("gossip_bind", "is %q, as pool.bind: data and gossip want a port each", p.GossipBind)
	}
	for key, at := range map[string]string{"advertise": p.Advertise, "gossip_advertise": p.GossipAdvertise} {
		if host, port, err := splitAddress(at, DataPort); at != "" && (err != nil || host == "" || port == "0") {
			return wrong(key, "is %q: want what other nodes connect to, such as 10.0.0.7, 10.0.0.7:7420, [fd00::7]:7420 or a name", at)
		} else if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			return wrong(key, "is %q: that is every address of a machine, and none that other nodes connect to", at)
		}
	}
	for _, seed := range p.Seeds {
		if host, port, err := splitAddress(seed, GossipPort); err != nil || host == "" || port == "0" {
			return wrong("seeds", "has %q: want an address or a name, such as 10.0.0.7, 10.0.0.7:7421, [fd00::7]:7421 or node-a.example.org", seed)
		}
	}
	return nil
}

// splitAddress takes a host and a port apart, for all addresses that there are: 10.0.0.7:1,
// [fd00::7]:1, a name with a port; and without one if there is a port to take then.
func splitAddress(text, port string) (host, given string, err error) {
	host, given, err = net.SplitHostPort(text)
	if err != nil && port != "" {
		bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		if net.ParseIP(bare) == nil && strings.ContainsAny(bare, ":[]/ ") {
			return "", "", errors.New("no host, and no host with a port")
		}
		return bare, port, nil
	}
	if err != nil {
		return "", "", errors.New("want a host and a port, such as 10.0.0.7:7420 or [fd00::7]:7420, or :7420 for all addresses")
	}
	if _, err := strconv.ParseUint(given, 10, 16); err != nil {
		return "", "", fmt.Errorf("port %q is no number up to 65535", given)
	}
	return host, given, nil
}

// GossipAddress is where the gossip is taken: gossip_bind, or beside bind.
func (p *Pool) GossipAddress() string {
	if p.GossipBind != "" {
		return p.GossipBind
	}
	host, port, err := splitAddress(p.Bind, "")
	n, _ := strconv.Atoi(port)
	if err != nil || n == 0 || n == 65535 { // any port: any other
		return net.JoinHostPort(host, "0")
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// GossipSeeds are the seeds as the gossip takes them, and GossipAdvertised is gossip_advertise.
func (p *Pool) GossipSeeds() []string {
	seeds := make([]string, len(p.Seeds))
	for i, seed := range p.Seeds {
		seeds[i] = bracketed(seed)
	}
	return seeds
}

// GossipAdvertised: see GossipSeeds.
func (p *Pool) GossipAdvertised() string { return bracketed(p.GossipAdvertise) }

// bracketed puts a bare address of IPv6 into brackets.
func bracketed(text string) string {
	if net.ParseIP(text) != nil && strings.Contains(text, ":") {
		return "[" + text + "]"
	}
	return text
}

// DataAddress is where others reach data connections that are taken at this address; a host
// that stands for all addresses is left to the gossip.
func (p *Pool) DataAddress(listens string) string {
	_, port, err := net.SplitHostPort(listens)
	if p.Advertise == "" || err != nil {
		return listens
	}
	host, given, _ := splitAddress(p.Advertise, port) // checked
	return net.JoinHostPort(host, given)
}
