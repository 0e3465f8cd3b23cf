package node

import (
	"net"
	"os"
	"sync"
	"time"
)

// outboxBytesMax is how many answers may wait before the connection's reader
// stops reading requests.
const outboxBytesMax = 1 << 20

// outbox sends answers. Whoever adds one while nobody is sending sends it, and what
// others add meanwhile, in as few calls as possible. A client that leaves its answers
// unread for too long loses the connection.
type outbox struct {
	socket *net.UnixConn
	stall  time.Duration
	failed func(error) // called once, by the sender

	mu      sync.Mutex
	room    sync.Cond // waiting fell below its bound, or the box is broken
	waiting []byte
	spare   []byte // the other buffer
	files   []fileAt
	sending bool
	broken  bool
}

// fileAt is a descriptor that goes with the byte at an offset of waiting.
type fileAt struct {
	offset int
	file   *os.File
}

func newOutbox(socket *net.UnixConn, stall time.Duration, failed func(error)) *outbox {
	o := &outbox{socket: socket, stall: stall, failed: failed}
	o.room.L = &o.mu
	return o
}

// add queues what frame appends, with a descriptor if file is not nil, and sends
// it unless somebody is sending already. The file is closed once it is sent or
// never will be.
func (o *outbox) add(frame func(b []byte) []byte, file *os.File) {
	o.mu.Lock()
	if o.broken {
		o.mu.Unlock()
		closeFile(file)
		return
	}
	if file != nil {
		o.files = append(o.files, fileAt{len(o.waiting), file})
	}
	o.waiting = frame(o.waiting)
	if o.sending {
		o.mu.Unlock()
		return
	}
	o.sending = true
	for len(o.waiting) > 0 && !o.broken {
		batch, files := o.waiting, o.files
		o.waiting, o.files = o.spare[:0], nil
		o.room.Broadcast()
		o.mu.Unlock()
		err := o.send(batch, files)
		o.mu.Lock()
		if o.spare = batch; cap(batch) > 4*outboxBytesMax {
			o.spare = nil
		}
		if err != nil && !o.broken {
			o.breakLocked()
			o.mu.Unlock()
			o.failed(err)
			o.mu.Lock()
		}
	}
	o.sending = false
	o.mu.Unlock()
}

// send writes a batch; each descriptor goes with the first byte of its frame.
func (o *outbox) send(b []byte, files []fileAt) error {
	sent := 0
	for i, f := range files {
		if err := o.write(b[sent:f.offset]); err != nil {
			closeFiles(files[i:])
			return err
		}
		_ = o.socket.SetWriteDeadline(time.Now().Add(o.stall)) // fails only when closed, as the write will
		n, _, err := o.socket.WriteMsgUnix(b[f.offset:f.offset+1], rights(f.file), nil)
		closeFile(f.file)
		if err != nil {
			closeFiles(files[i+1:])
			return err
		}
		sent = f.offset + n
	}
	return o.write(b[sent:])
}

func (o *outbox) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_ = o.socket.SetWriteDeadline(time.Now().Add(o.stall))
	_, err := o.socket.Write(b)
	return err
}

// wait blocks while too much waits to be sent.
func (o *outbox) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) > outboxBytesMax && !o.broken {
		o.room.Wait()
	}
}

// close drops what waits; nothing is sent any more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.breakLocked()
}

func (o *outbox) breakLocked() {
	o.broken = true
	closeFiles(o.files)
	o.waiting, o.files = nil, nil
	o.room.Broadcast()
}

func closeFiles(files []fileAt) {
	for _, f := range files {
		closeFile(f.file)
	}
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}
