package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/integration/vm/wire"
)

// Places in the image.
const (
	moduleOrder = "/modules/order"
	setUp       = "/setup.sh"
)

func powerOff() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) }

// run returns when the machine is to be powered off, with the reason.
func run() error {
	os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	os.Setenv("TMPDIR", "/tmp")
	os.Setenv("SPILLWAY_VM", "1")
	if err := mounts(); err != nil {
		return err
	}
	if err := modules(); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	a := newServant(port)
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil {
		return err
	}
	out, err := exec.Command("/bin/sh", setUp).CombinedOutput()
	if err != nil {
		a.report(wire.Report{Kind: wire.Failed, Output: fmt.Appendf(out, "\nset-up: %v", err)})
		return err
	}
	a.report(wire.Report{Kind: wire.Ready, Output: out})
	return a.obey()
}

func mounts() error {
	for _, m := range []struct{ kind, dir, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""},
		{"tmpfs", "/dev/shm", ""}, {"devpts", "/dev/pts", ""}, {"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/run", "mode=755"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return os.Symlink("/proc/self/fd", "/dev/fd")
}

// modules loads what the image holds, in its order.
func modules() error {
	order, err := os.Open(moduleOrder)
	if err != nil {
		return err
	}
	defer order.Close()
	for lines := bufio.NewScanner(order); lines.Scan(); {
		if err := load("/modules/" + lines.Text()); err != nil {
			return fmt.Errorf("module %s: %w", lines.Text(), err)
		}
	}
	return nil
}

func load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) { // ENODEV: not for this processor
		return nil
	}
	return err
}

// openPort waits for the serial port to the host.
func openPort() (*os.File, error) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil || strings.TrimSpace(string(text)) != wire.PortName {
				continue
			}
			f, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR, 0)
			if err == nil {
				return f, nil
			}
		}
	}
	return nil, errors.New("no serial port to the host")
}
