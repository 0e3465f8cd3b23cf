package device_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/engine/device"
)

const childEnv = "SPILLWAY_TEST_LOCK_DIR"

// TestMain also plays the second process of the lock tests: it holds the
// directory until its standard input ends or it is killed. And it takes away
// what a child process of a test is to do without.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		d, err := device.OpenDir(dir, device.Options{AnyFileSystem: true, BufferedIO: true})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = d.Close()
		return
	}
	if err := restrict(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
