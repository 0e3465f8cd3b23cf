package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/integration/vm/wire"
)

// servant starts processes for the host and tells what becomes of them.
type servant struct {
	port *os.File

	mu    sync.Mutex // for writing to port, and groups
	group map[int]int
}

func newServant(port *os.File) *servant { return &servant{port: port, group: map[int]int{}} }

func (a *servant) report(r wire.Report) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // of strings and numbers
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.port.Write(append(line, '\n')); err != nil {
		fmt.Println("init: report:", err)
	}
}

// obey returns when the host orders the end, or is gone.
func (a *servant) obey() error {
	for orders := json.NewDecoder(bufio.NewReader(a.port)); ; {
		var o wire.Order
		if err := orders.Decode(&o); err != nil {
			return fmt.Errorf("the host is gone: %w", err)
		}
		switch o.Kind {
		case wire.Start:
			if err := a.start(o); err != nil {
				a.report(wire.Report{Kind: wire.Failed, ID: o.ID, Output: []byte(err.Error())})
			}
		case wire.Signal:
			a.mu.Lock()
			pid := a.group[o.ID]
			a.mu.Unlock()
			if pid != 0 {
				_ = unix.Kill(-pid, unix.Signal(o.Signal))
			}
		case wire.Off:
			unix.Sync()
			a.report(wire.Report{Kind: wire.Off})
			return errors.New("as ordered")
		}
	}
}

// start starts a process in a group of its own; a goroutine tells its output and its end,
// and lives at most as long as the machine.
func (a *servant) start(o wire.Order) error {
	argv := o.Argv
	if o.UID != 0 || o.MemlockBytes != 0 {
		argv = append([]string{"/init", "limited", "-uid", strconv.Itoa(o.UID), "-memlock", strconv.FormatInt(o.MemlockBytes, 10)}, argv...)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.Dir = o.Dir
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return err
	}
	a.mu.Lock()
	a.group[o.ID] = cmd.Process.Pid
	a.mu.Unlock()
	go a.tell(o.ID, cmd, read)
	return nil
}

// tell passes output on until every holder of the pipe has closed it.
func (a *servant) tell(id int, cmd *exec.Cmd, read *os.File) {
	defer read.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := read.Read(buf)
		if n > 0 {
			a.report(wire.Report{Kind: wire.Output, ID: id, Output: buf[:n]})
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()                                // its state says all
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it has left behind, if anything
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	a.mu.Lock()
	delete(a.group, id)
	a.mu.Unlock()
	a.report(wire.Report{Kind: wire.Exit, ID: id, Code: code})
}

// limited becomes another program with the rights that args name. It returns only to say
// why it did not.
func limited(args []string) error {
	flags := flag.NewFlagSet("limited", flag.ContinueOnError)
	uid := flags.Int("uid", 0, "user and group")
	memlock := flags.Uint64("memlock", 0, "bytes, 0: no limit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *memlock != 0 {
		limit := unix.Rlimit{Cur: *memlock, Max: *memlock}
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
			return err
		}
	}
	if *uid != 0 {
		err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(*uid), syscall.Setuid(*uid))
		if err != nil {
			return err
		}
	}
	name, err := exec.LookPath(flags.Arg(0))
	if err != nil {
		return err
	}
	return unix.Exec(name, flags.Args(), os.Environ())
}
