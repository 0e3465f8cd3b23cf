package vm

import (
	"errors"
	"os"
	"path/filepath"
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

// hangs is a program that has its machine end as one ends whose kernel hangs, and does better
// in the next machine: a drive remembers.
const hangs = `#!/bin/sh
if [ "$(head -c 5 /dev/nvme0n1)" = again ]; then
	echo this time it does not
	exit
fi
echo again >/dev/nvme0n1
sync
echo "<0>Kernel panic - not syncing: softlockup: hung tasks" >/dev/kmsg
echo c >/proc/sysrq-trigger
sleep 100
`

// TestRunsAgain: what runs in a machine that hangs runs again in another one.
func TestRunsAgain(t *testing.T) {
	k := newKit(t, nil, "verbs")
	script := filepath.Join(k.dir, "hangs")
	if err := os.WriteFile(script, []byte(hangs), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if k.image, err = NewImage(k.dir, Files{"/hangs": script}); err != nil {
		t.Fatal(err)
	}
	drive := filepath.Join(k.dir, "drive")
	if err := NewDrive(drive, 1<<20); err != nil {
		t.Fatal(err)
	}
	g := k.ground(t, Options{Drives: []Drive{{Path: drive}}})
	output := g.run(guestTest{"/hangs", "", 2 * time.Minute})
	if g.hangs != 1 || output != "this time it does not\n" {
		t.Errorf("%d hangs, then %q", g.hangs, output)
	}
	g.end()
}
