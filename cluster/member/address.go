package member

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ErrAddress says that a text is no address of a node.
var ErrAddress = errors.New("bad address")

// Address is a host and a port. The one parser of the pool makes it, and String prints
// IPv6 hosts in brackets.
type Address struct {
	Host string // an IP address without brackets, a DNS name, or empty for every interface
	Port uint16
}

// String is host:port, [host]:port for IPv6.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// IP is the host as an IP address; false for names and the empty host.
func (a Address) IP() (netip.Addr, bool) {
	ip, err := netip.ParseAddr(a.Host)
	return ip.Unmap(), err == nil
}

// Any reports whether the address means every interface of the machine.
func (a Address) Any() bool {
	ip, ok := a.IP()
	return a.Host == "" || ok && ip.IsUnspecified()
}

// ParseAddress reads 192.0.2.1:7421, [2001:db8::1]:7421, node3.example:7421 or one of them
// without its port, if port is not 0: then that is the port. A host may be missing, as in
// :7421, which is for listening. Errors match ErrAddress and hint at what is meant.
func ParseAddress(text string, port uint16) (Address, error) {
	host, digits, err := splitAddress(text)
	if err != nil {
		return Address{}, err
	}
	a := Address{Host: host, Port: port}
	if digits == "" && port == 0 {
		return Address{}, fmt.Errorf("%w %q: the port is missing, as in %s", ErrAddress, text, Address{Host: host, Port: 7421})
	}
	if digits != "" {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || digits[0] == '+' {
			return Address{}, fmt.Errorf("%w %q: the port %q is no number from 0 to 65535", ErrAddress, text, digits)
		}
		a.Port = uint16(n)
	}
	return a, nil
}

// splitAddress takes host and port apart; digits are empty where there is no port.
func splitAddress(text string) (host, digits string, err error) {
	if rest, bracket := strings.CutPrefix(text, "["); bracket {
		host, after, closed := strings.Cut(rest, "]")
		ip, err := netip.ParseAddr(host)
		switch {
		case !closed:
			return "", "", fmt.Errorf("%w %q: the closing bracket is missing", ErrAddress, text)
		case err != nil || !ip.Is6():
			return "", "", fmt.Errorf("%w %q: only IPv6 addresses stand in brackets", ErrAddress, text)
		case ip.Zone() != "":
			return "", "", fmt.Errorf("%w %q: other nodes do not know the interface %q; use an address without %%", ErrAddress, text, ip.Zone())
		case after == "":
			return ip.String(), "", nil
		case after[0] != ':' || after == ":":
			return "", "", fmt.Errorf("%w %q: after the bracket comes :port", ErrAddress, text)
		}
		return ip.String(), after[1:], nil
	}
	if strings.Count(text, ":") > 1 {
		return "", "", fmt.Errorf("%w %q: write IPv6 addresses in brackets, as in [2001:db8::1]:7421", ErrAddress, text)
	}
	host, digits, colon := strings.Cut(text, ":")
	if text == "" || colon && digits == "" {
		return "", "", fmt.Errorf("%w %q: want host:port", ErrAddress, text)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), digits, nil
	}
	return host, digits, checkHost(text, host)
}

// checkHost says what is wrong with a DNS name.
func checkHost(text, host string) error {
	if host == "" {
		return nil
	}
	if strings.Contains(text, "/") {
		return fmt.Errorf("%w %q: want host:port, without scheme or path", ErrAddress, text)
	}
	if len(host) > 253 {
		return fmt.Errorf("%w %q: a name of %d bytes, want at most 253", ErrAddress, text, len(host))
	}
	numeric := true
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, nameLetters) != "" {
			return fmt.Errorf("%w %q: %q is neither an IP address nor a DNS name", ErrAddress, text, host)
		}
		numeric = strings.Trim(label, "0123456789") == ""
	}
	if numeric {
		return fmt.Errorf("%w %q: %q is no IP address", ErrAddress, text, host)
	}
	return nil
}

// nameLetters are those of host names, underscores as in practice included.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
