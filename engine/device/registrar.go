package device

// MemoryRegistrar is implemented by devices that transfer faster to and from
// memory they know beforehand. Ask for it with a type assertion.
type MemoryRegistrar interface {
	// RegisterMemory pins mem and remembers it: a transfer of one piece that
	// lies within mem costs less processor time. It is registered in parts of
	// 1 GiB; a piece across two of them is transferred as if unregistered.
	//
	// mem must be mapped memory (anonymous, memfd, tmpfs, huge pages), writable,
	// not part of the Go heap and not of a file on a drive. It must stay mapped,
	// as it is, until release has returned: after unmapping and mapping anew at the same
	// address, transfers would go to the old pages. release must be called with
	// no Op on mem in flight, at most once has an effect, and is not needed after
	// the device is closed.
	//
	// On an error nothing is registered, and Ops on mem work all the same. An
	// *UnsupportedError that matches syscall.ENOMEM means that the limit of locked
	// memory is too low; it names need, limit and remedy, as one line of
	// Facts.Notes then does. Registering memory twice is an error.
	RegisterMemory(mem []byte) (release func(), err error)
}
