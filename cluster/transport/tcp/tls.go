package tcp

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// TLS names the files, in PEM, with which nodes prove that they belong to the pool. Both
// sides of a connection show a certificate that the CA has signed, for use as a server
// and as a client. The files are read again at the next connection after they changed;
// links that are there stay.
type TLS struct {
	CA          string // certificates that sign those of nodes; nothing else is trusted
	Certificate string // of this node, with intermediates behind it
	Key         string
	// CheckNames wants a node's name among the DNS names of its certificate.
	CheckNames bool
}

func (f *TLS) validate() error {
	if f.CA == "" || f.Certificate == "" || f.Key == "" {
		return fmt.Errorf("%w: TLS needs a CA (%q), a certificate (%q) and a key (%q)", ErrOptions, f.CA, f.Certificate, f.Key)
	}
	return nil
}

// credentials are what the files of a TLS say now.
type credentials struct {
	files TLS
	log   *slog.Logger

	mu     sync.Mutex
	looked stamps // the files when they were last read well
	good   *identity
}

// identity is one state of the files.
type identity struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

type stamp struct {
	modified time.Time
	bytes    int64
	file     os.FileInfo
}

type stamps [3]stamp

func newCredentials(files TLS, log *slog.Logger) (*credentials, error) {
	c := &credentials{files: files, log: log}
	c.looked, _ = c.look()
	id, err := c.load()
	if err != nil {
		return nil, err
	}
	c.good = id
	return c, nil
}

func (c *credentials) look() (now stamps, err error) {
	for i, name := range []string{c.files.CA, c.files.Certificate, c.files.Key} {
		info, err := os.Stat(name)
		if err != nil {
			return now, err
		}
		now[i] = stamp{info.ModTime(), info.Size(), info}
	}
	return now, nil
}

func (a *stamps) equal(b *stamps) bool {
	for i := range a {
		if !a[i].modified.Equal(b[i].modified) || a[i].bytes != b[i].bytes || !os.SameFile(a[i].file, b[i].file) {
			return false
		}
	}
	return true
}

func (c *credentials) load() (*identity, error) {
	pem, err := os.ReadFile(c.files.CA)
	if err != nil {
		return nil, fmt.Errorf("the CA of TLS: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA of TLS: %s has no certificate in PEM", c.files.CA)
	}
	certificate, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of TLS, %s with %s: %w", c.files.Certificate, c.files.Key, err)
	}
	return &identity{certificate, roots}, nil
}

// now is the identity of the files as they are; where they cannot be used, perhaps
// because they are being written, it is the one from before.
func (c *credentials) now() *identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	looked, err := c.look()
	if err == nil && looked.equal(&c.looked) {
		return c.good
	}
	var id *identity
	if err == nil {
		id, err = c.load()
	}
	if err != nil {
		c.log.Warn("the changed files of TLS cannot be used, those from before stay in use", "err", err)
		return c.good
	}
	c.log.Info("the files of TLS have changed, new connections use them", "certificate", c.files.Certificate)
	c.looked, c.good = looked, id
	return id
}

// config is what both sides use. Certificates are judged by check, not by the handshake
// itself: a server tells its reasons in words.
func (id *identity) config() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		Certificates:                []tls.Certificate{id.certificate},
		ClientAuth:                  tls.RequireAnyClientCert,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		InsecureSkipVerify:          true,
	}
}

// check judges the certificate of the other side; name is empty or to be found in it.
func (id *identity) check(state tls.ConnectionState, usage x509.ExtKeyUsage, name string) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("it shows none")
	}
	leaf := state.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: id.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err == nil && name != "" {
		err = leaf.VerifyHostname(name)
	}
	if err != nil {
		return fmt.Errorf("certificate of %q, signed by %q, for %q, valid %s to %s: %w", leaf.Subject, leaf.Issuer, leaf.DNSNames,
			leaf.NotBefore.Format(time.DateTime), leaf.NotAfter.Format(time.DateTime), err)
	}
	return nil
}

// check judges who connects, by what the files say now.
func (c *credentials) check(socket *tls.Conn, usage x509.ExtKeyUsage, name string) error {
	if !c.files.CheckNames {
		name = ""
	}
	return c.now().check(socket.ConnectionState(), usage, name)
}

// prefixed is a connection of which the first bytes have been read.
type prefixed struct {
	*net.TCPConn
	head []byte
}

func (c *prefixed) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.TCPConn.Read(b)
}

// tcpOf is the connection beneath TLS, or this one.
func tcpOf(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}
