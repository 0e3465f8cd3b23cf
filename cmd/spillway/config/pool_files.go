package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
)

// checkFiles reads the keyring and the certificates. What they say is judged by those who
// use them; that they can be read, and hold anything, is known here.
func (p *Pool) checkFiles() error {
	if p.Keyring != "" {
		text, err := readFile(p.Keyring)
		if err != nil {
			return &Error{File: p.Keyring, Text: fmt.Sprintf("pool.keyring cannot be read: %v", err)}
		}
		if !hasKey(text) {
			return &Error{File: p.Keyring, Text: "pool.keyring: no key in the file; openssl rand -base64 32 makes one"}
		}
	}
	if !p.TLS() {
		return nil
	}
	_, _, err := p.certificate()
	return err
}

// hasKey says whether a keyring has a line that is no comment.
func hasKey(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// certificate is this node's, and how the others judge it.
func (p *Pool) certificate() (leaf *x509.Certificate, o x509.VerifyOptions, err error) {
	pair, err := tls.LoadX509KeyPair(p.TLSCert, p.TLSKey)
	if err != nil {
		return nil, o, &Error{Text: fmt.Sprintf("pool.tls_cert %s with pool.tls_key %s: %v", p.TLSCert, p.TLSKey, err)}
	}
	text, err := readFile(p.TLSCA)
	if err != nil {
		return nil, o, &Error{Text: fmt.Sprintf("pool.tls_ca: %v", err)}
	}
	o.Roots, o.Intermediates = x509.NewCertPool(), x509.NewCertPool()
	if !o.Roots.AppendCertsFromPEM(text) {
		return nil, o, &Error{File: p.TLSCA, Text: "pool.tls_ca: no certificate in PEM in the file"}
	}
	for _, der := range pair.Certificate[1:] {
		between, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, o, &Error{File: p.TLSCert, Text: fmt.Sprintf("pool.tls_cert: a certificate behind the first: %v", err)}
		}
		o.Intermediates.AddCert(between)
	}
	if p.TLSNames {
		o.DNSName, _ = p.NodeName() // checked
	}
	return pair.Leaf, o, nil
}

// explainCertificate says until when this node's certificate is good, or why the others
// would refuse it.
func (p *Pool) explainCertificate() string {
	leaf, o, err := p.certificate()
	if err != nil {
		return err.Error()
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		o.KeyUsages = []x509.ExtKeyUsage{use}
		if _, err = leaf.Verify(o); err != nil {
			return fmt.Sprintf("the others refuse the certificate of %s: %v", strings.TrimPrefix(leaf.Subject.String(), "CN="), err)
		}
	}
	return fmt.Sprintf("the certificate of %s is good until %s", strings.TrimPrefix(leaf.Subject.String(), "CN="), leaf.NotAfter.Format(time.DateOnly))
}
