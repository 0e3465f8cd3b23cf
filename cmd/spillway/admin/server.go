package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of the interface.
const (
	connectionsMax = 64 // at once; more wait
	headerBytesMax = 16 << 10
	bodyBytesMax   = 64 << 10
	headerTime     = 5 * time.Second
	readTime       = 10 * time.Second
	writeTime      = 60 * time.Second // a profile takes 30 s
	idleTime       = 60 * time.Second
	scrapesMax     = 8 // at once; more are refused
)

// ServerOptions configure a Server.
type ServerOptions struct {
	AnyHost bool // answer requests for any host name; otherwise for addresses and localhost
	Pprof   bool // serve Go's profiles
	Trusted bool // who reaches it is an operator: changes need no token
	Logger  *slog.Logger
}

// Server serves a view.
type Server struct {
	http   *http.Server
	served chan error
}

// Start serves v on l, which it closes, until Close.
func Start(l net.Listener, v *View, o ServerOptions) *Server {
	s := &Server{served: make(chan error, 1), http: &http.Server{Handler: v.handler(o), ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}}
	go func() {
		s.served <- s.http.Serve(&limitedListener{Listener: l, slots: make(chan struct{}, connectionsMax), over: make(chan struct{})})
	}()
	return s
}

// Close ends serving; requests under way have a second.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.served
}

// handler is the whole interface.
func (v *View) handler(o ServerOptions) http.Handler {
	mux := http.NewServeMux()
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(v), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelError)}))
	mux.HandleFunc("GET /healthz", v.serveHealth)
	mux.HandleFunc("GET /readyz", v.serveReady)
	mux.HandleFunc("GET /v1/stat", func(w http.ResponseWriter, _ *http.Request) { reply(w, v.State()) })
	mux.HandleFunc("GET /v1/namespaces", func(w http.ResponseWriter, _ *http.Request) { reply(w, v.namespaces()) })
	mux.HandleFunc("GET /v1/namespaces/hot", v.asking(v.hot))
	mux.HandleFunc("GET /v1/namespaces/descriptor", v.asking(v.descriptor))
	mux.HandleFunc("GET /v1/clients", func(w http.ResponseWriter, _ *http.Request) { reply(w, v.clients()) })
	mux.HandleFunc("POST /v1/namespaces/drop", v.changing(o, v.drop))
	mux.HandleFunc("POST /v1/namespaces/quota", v.changing(o, v.quota))
	mux.HandleFunc("POST /v1/clients/disconnect", v.changing(o, v.disconnect))
	v.poolRoutes(mux, o)
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	h := http.MaxBytesHandler(mux, bodyBytesMax)
	if !o.AnyHost {
		h = ownHost(h)
	}
	return http.NewCrossOriginProtection().Handler(h)
}

// ownHost refuses requests for a host that has a name: a web page whose name was
// made to lead here must not read anything.
func ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if _, err := netip.ParseAddr(trimBrackets(host)); err != nil && host != "localhost" {
			fail(w, http.StatusForbidden, "ask for this host by its address, or as localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func trimBrackets(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// reply writes v as JSON.
func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // the reader has gone
}

// failure is the JSON of an error.
type failure struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{text})
}

// limitedListener has at most so many connections open; others wait in the
// system's queue.
type limitedListener struct {
	net.Listener
	slots chan struct{}
	over  chan struct{}
	once  sync.Once
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.over:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, slots: l.slots}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.over) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}

// errNotReady answers what needs a node before there is one.
var errNotReady = errors.New("the daemon is still starting")
