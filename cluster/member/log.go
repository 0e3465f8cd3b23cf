package member

import (
	"context"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The gossip library writes its log as text. Here it becomes records of slog, of each kind
// a few only; and two things that it says nowhere else are heard.

// Bounds of the log.
const (
	linesPerPeriod = 5 // of one kind
	linesPeriod    = 30 * time.Second
	lineKindsMax   = 128
)

// libraryLog is the writer that the library logs to. The library holds its own locks
// meanwhile: nothing here may call it.
type libraryLog struct {
	log       *slog.Logger
	suspected func(name string)     // a member did not answer this node's probe in any way
	mismatch  func(from netip.Addr) // something could not be decrypted
	dropped   *atomic.Int64

	mu    sync.Mutex // guards kinds
	kinds map[string]*lineKind
}

// lineKind counts lines that differ in their numbers and addresses only.
type lineKind struct {
	since time.Time
	lines int
}

var (
	suspectLine = regexp.MustCompile(`Suspect (\S+) has failed, no acks received`)
	fromPart    = regexp.MustCompile(` from=(\S+)`)
	// variable is what differs between lines of one kind.
	variable = regexp.MustCompile(`[0-9][0-9a-fA-F.:\[\]]*|'[^']*'|"[^"]*"`)
	levels   = map[string]slog.Level{"[ERR]": slog.LevelWarn, "[ERROR]": slog.LevelWarn, "[WARN]": slog.LevelWarn, "[INFO]": slog.LevelInfo, "[DEBUG]": slog.LevelDebug}
)

// undecryptable is what the library says of something encrypted with another key.
const undecryptable = "no installed keys could decrypt the message"

// Write takes one line.
func (l *libraryLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelInfo
	if word, rest, ok := strings.Cut(text, " "); ok {
		if at, known := levels[word]; known {
			level, text = at, rest
		}
	}
	text = strings.TrimPrefix(text, "memberlist: ")
	l.hear(text)
	if l.log.Enabled(context.Background(), level) {
		if l.may(text) {
			l.log.Log(context.Background(), level, "gossip", "text", text)
		} else {
			l.dropped.Add(1)
		}
	}
	return len(line), nil
}

func (l *libraryLog) hear(text string) {
	if m := suspectLine.FindStringSubmatch(text); m != nil {
		l.suspected(m[1])
	}
	if strings.Contains(text, undecryptable) {
		var from netip.Addr
		if m := fromPart.FindStringSubmatch(text); m != nil {
			at, _ := netip.ParseAddrPort(m[1])
			from = at.Addr().Unmap()
		}
		l.mismatch(from)
	}
}

// may reports whether there is room for one more line of this kind.
func (l *libraryLog) may(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := variable.ReplaceAllString(text, "#")
	k := l.kinds[name]
	if k == nil {
		if len(l.kinds) >= lineKindsMax {
			clear(l.kinds)
		}
		k = &lineKind{since: time.Now()}
		l.kinds[name] = k
	}
	if time.Since(k.since) > linesPeriod {
		k.since, k.lines = time.Now(), 0
	}
	k.lines++
	return k.lines <= linesPerPeriod
}
