package daemon

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// notifier tells a service manager how the daemon is (sd_notify(3)): lines in a
// datagram to the socket that the environment names. Without one it is nil, and says
// nothing.
type notifier struct{ socket *net.UnixConn }

func newNotifier(path string) (*notifier, error) {
	if path == "" {
		return nil, nil
	}
	// A leading @ stands for an abstract socket, here as there.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return &notifier{c}, nil
}

// send is lost if nobody takes it within a second: the daemon goes on all the same.
func (n *notifier) send(lines ...string) {
	if n == nil {
		return
	}
	_ = n.socket.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = n.socket.Write([]byte(strings.Join(lines, "\n")))
}

func (n *notifier) close() {
	if n != nil {
		_ = n.socket.Close()
	}
}

// reloading is what a service manager wants to see at the beginning of a reload.
func reloading() []string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return []string{"RELOADING=1"}
	}
	return []string{"RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)}
}

// watchdogTime is how often the service manager wants a sign of life; 0: never. It
// gives the time in microseconds, and the process that it means, if not any.
func watchdogTime(usec, pid string) time.Duration {
	us, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) || pid != "" && pid != strconv.Itoa(unix.Getpid()) {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
