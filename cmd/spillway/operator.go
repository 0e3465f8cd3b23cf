package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// operatorFlags choose the daemon that an operator speaks to.
type operatorFlags struct {
	Socket    string `placeholder:"PATH" help:"The daemon's socket ($SPILLWAY_SOCKET, else /run/spillway/spillway.sock); that of its operator is beside it."`
	Admin     string `placeholder:"ADDRESS" help:"Ask the admin interface there instead, also of another machine."`
	TokenFile string `placeholder:"FILE" complete:"file" help:"A file with admin.token, for changes by way of --admin; the socket needs none."`
}

// operator is a way to a daemon's admin interface: its address, or the Unix socket for
// operators that a node of a pool has.
type operator struct {
	address string // host and port
	socket  string // in place of an address
	token   string
}

func (f *operatorFlags) operator(st *state) (*operator, error) {
	token, err := config.ReadToken(f.TokenFile)
	if err != nil {
		return nil, err
	}
	if f.Admin != "" {
		return &operator{address: f.Admin, token: token}, nil
	}
	socket := config.DefaultSocket
	override(&socket, st.getenv("SPILLWAY_SOCKET"))
	override(&socket, f.Socket)
	return &operator{socket: socket + admin.SocketSuffix}, nil
}

// ask sends one request and decodes its answer; body nil: a GET.
func (o *operator) ask(ctx context.Context, path string, query url.Values, body, into any) error {
	request, err := o.request(ctx, path, query, body)
	if err != nil {
		return err
	}
	// A transport of its own: nothing of it stays.
	transport := &http.Transport{DisableKeepAlives: true}
	if o.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", o.socket)
		}
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return o.explain(err)
	}
	defer answer.Body.Close()
	from := json.NewDecoder(io.LimitReader(answer.Body, stateBytesMax))
	if answer.StatusCode != http.StatusOK {
		return refusal(request.URL, answer, from)
	}
	if err := from.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", request.URL, err)
	}
	return nil
}

func (o *operator) request(ctx context.Context, path string, query url.Values, body any) (*http.Request, error) {
	to := url.URL{Scheme: "http", Host: o.address, Path: path, RawQuery: query.Encode()}
	method, text := http.MethodGet, []byte(nil)
	if o.socket != "" {
		to.Host = "localhost"
	}
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(text))
	if err != nil {
		return nil, usagef("write it like 127.0.0.1:9470", "--admin %q: %v", o.address, err)
	}
	if o.token != "" {
		request.Header.Set("Authorization", "Bearer "+o.token)
	}
	return request, nil
}

// explain says what to do where nobody answers.
func (o *operator) explain(err error) error {
	remedy := "is the daemon running, with admin.address?"
	var in *url.Error
	if errors.As(err, &in) {
		err = in.Err // without the request, which nobody has asked to see
	}
	switch {
	case o.socket != "" && errors.Is(err, os.ErrPermission):
		remedy = "this socket is for the daemon's user and root: use sudo, or --admin ADDRESS --token-file FILE"
	case o.socket != "":
		remedy = "is the daemon running, as a node of a pool (serve --pool)? --socket names another one"
	}
	return &failure{code: exitError, message: err.Error(), remedy: remedy, cause: err}
}

// refusal is the reason that the daemon gives.
func refusal(asked *url.URL, answer *http.Response, from *json.Decoder) error {
	var why struct {
		Error string `json:"error"`
	}
	_ = from.Decode(&why) // or there is no reason
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &failure{code: exitError, message: why.Error, remedy: "--token-file FILE shows admin.token; on the daemon's own machine --socket needs none"}
	case http.StatusBadRequest:
		return &failure{code: exitUsage, message: why.Error}
	case http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable:
		if why.Error != "" {
			return &failure{code: exitError, message: why.Error}
		}
	}
	return fmt.Errorf("%s answers %s: %s", asked, answer.Status, why.Error)
}

// quick bounds a question that needs no other node.
func quick(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, askTime)
}

// pause waits, and reports whether the context still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
