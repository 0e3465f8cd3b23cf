// Command run runs the tests of one package in a virtual machine with RDMA devices and
// an empty NVMe drive: go run ./integration/vm/run ./cluster/transport/rdma/verbs -test.v
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spillway-kv/spillway/integration/vm"
)

func main() {
	tags := flag.String("tags", "verbs", "build `tags` of the tests")
	memory := flag.Int("m", 2048, "memory of the machine in `MiB`")
	uid := flag.Int("uid", 0, "`user` that runs the tests")
	daemon := flag.Bool("daemon", false, "put the daemon into the machine, too, as /spillway")
	memlock := flag.Int64("memlock", 0, "most `bytes` of memory that the tests may lock, 0: no limit")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: run [flags] PACKAGE [flags of the test, such as -test.run Name]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	command := vm.Command{UID: *uid, MemlockBytes: *memlock, Dir: "/tmp", Live: os.Stdout, Env: []string{"SPILLWAY_RDMA_PORTS=rxe1,rxe2"}}
	code, err := run(ctx, flag.Args(), *tags, *memory, *daemon, command)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, tags string, memory int, daemon bool, command vm.Command) (code int, err error) {
	if err := vm.Missing(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "spillway-vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	test, err := vm.BuildTest(dir, args[0], tags)
	if err != nil {
		return 0, err
	}
	files := vm.Files{"/test": test}
	if daemon {
		if files["/spillway"], err = vm.BuildProgram(dir, "./cmd/spillway", tags); err != nil {
			return 0, err
		}
	}
	image, err := vm.NewImage(dir, files)
	if err != nil {
		return 0, err
	}
	drive := filepath.Join(dir, "drive")
	if err := vm.NewDrive(drive, 4<<30); err != nil {
		return 0, err
	}
	m, err := vm.Boot(ctx, image, vm.Options{MemoryMiB: memory, Drives: []vm.Drive{{Path: drive}}})
	if err != nil {
		return 0, err
	}
	defer m.Close()
	command.Argv = append([]string{"/test"}, args[1:]...)
	r, err := m.Run(ctx, command)
	if err != nil {
		return 0, err
	}
	fmt.Printf("exit code %d after %.1f s in the machine\n", r.Code, r.Took.Seconds())
	return r.Code, m.Shutdown(ctx)
}
