package device

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Apart is implemented by devices whose transfers must not share a thread with
// calls that block it. Ask for it with a type assertion.
type Apart interface {
	// Apart runs call on a thread that submits nothing, and returns when it has
	// ended. It is for calls that sit in the kernel uninterruptibly, such as an
	// fsync, an unlink or a read through the page cache: the kernel posts the
	// completion of a transfer through the thread that submitted it, so that a
	// blocked thread holds up the completions of all it had submitted. call must
	// not call Apart, nor methods of the device. A panic of call is the caller's.
	Apart(call func())
}

// laneCount is how many calls can be blocked at once: a flush and a compaction
// of the index, the unlinking of a segment, and one more. Others wait for them,
// as they would for the drive.
const laneCount = 4

// lanes are threads for calls that block. Each belongs to one goroutine before the
// device submits anything, so that nothing is ever submitted from it.
type lanes struct {
	jobs    chan *job
	quit    chan struct{}
	threads sync.WaitGroup
	calls   atomic.Uint64 // made so far
}

type job struct {
	call  func()
	ended chan struct{}
	panic any // of call
}

func newLanes() *lanes {
	l := &lanes{jobs: make(chan *job), quit: make(chan struct{})}
	locked := make(chan struct{})
	for range laneCount {
		l.threads.Go(func() { l.serve(locked) })
	}
	for range laneCount {
		<-locked
	}
	return l
}

// serve ends with its thread still locked, which ends the thread.
func (l *lanes) serve(locked chan<- struct{}) {
	runtime.LockOSThread()
	locked <- struct{}{}
	for {
		select {
		case j := <-l.jobs:
			j.run()
		case <-l.quit:
			return
		}
	}
}

func (j *job) run() {
	defer close(j.ended)
	defer func() { j.panic = recover() }()
	j.call()
}

// do runs call on a lane; once they are closed, or on nil, where it is.
func (l *lanes) do(call func()) {
	if l == nil {
		call()
		return
	}
	j := &job{call: call, ended: make(chan struct{})}
	select {
	case l.jobs <- j:
		l.calls.Add(1)
	case <-l.quit:
		call()
		return
	}
	<-j.ended
	if j.panic != nil {
		panic(j.panic)
	}
}

// close waits for the calls that have begun.
func (l *lanes) close() {
	if l == nil {
		return
	}
	close(l.quit)
	l.threads.Wait()
}

// Apart implements Apart.
func (d *uring) Apart(call func()) { d.lanes.do(call) }

// apart runs a call that touches names or attributes on a lane, if there are any.
func (d *psync) apart(call func() error) (err error) {
	d.lanes.do(func() { err = call() })
	return err
}
