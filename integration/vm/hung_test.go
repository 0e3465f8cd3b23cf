package vm

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHung: a machine that ended because its kernel hung says so, and any other does not. No
// machine can be made to hang for a test: the words are those of Linux's kernel/watchdog.c.
func TestHung(t *testing.T) {
	for said, hung := range map[string]bool{
		"": false,
		"watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [spillway:353]":        false,
		"Kernel panic - not syncing: softlockup: hung tasks":                      true,
		"Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &Machine{console: &tail{}, gone: make(chan struct{})}
			go func() { // the end of the port may be there before that of the console
				time.Sleep(time.Second)
				for range 3 {
					_, _ = m.console.Write([]byte(strings.Repeat("[  171.125722] a line of the kernel\n", 100)))
				}
				_, _ = m.console.Write([]byte("[  171.125722] " + said + "\n[  171.2] CPU: 1 PID: 353\n"))
				close(m.gone)
			}()
			if err := m.lost(); errors.Is(err, ErrHung) != hung || !errors.Is(err, ErrGone) {
				t.Errorf("%q: %v", said, err)
			}
		})
	}
}
