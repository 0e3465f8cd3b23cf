package member

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"
)

// Messages of our own that the gossip library carries; docs/format/gossip.md lays them out.

const (
	messageVersion = 1
	kindAsk        = 1 // who are you?
	kindAnswer     = 2 // this one
	kindOver       = 3 // lives that are over

	askBytes    = 2 + 8 + 25
	overBytes   = 16 + 8 + 1 + 4
	oversAtOnce = 32 // in one packet
)

// errMessage says that a message breaks the format.
var errMessage = errors.New("malformed message of gossip")

// who is a life of a node, in a question and in an answer.
type who struct {
	life     life
	standing standing
}

// life is one life of a node, from a start to its end.
type life struct {
	id    ID
	start uint64
}

// ask is a question or an answer.
type ask struct {
	nonce uint64
	from  who
	reply netip.AddrPort // of a question: where the answer goes
}

func appendAsk(b []byte, kind byte, a *ask) []byte {
	b = append(b, messageVersion, kind)
	b = binary.LittleEndian.AppendUint64(b, a.nonce)
	b = append(b, a.from.life.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, a.from.life.start)
	b = append(b, byte(a.from.standing))
	if kind == kindAsk {
		text := a.reply.String()
		b = append(append(b, byte(len(text))), text...)
	}
	return b
}

func decodeAsk(b []byte, kind byte) (a ask, err error) {
	if len(b) < askBytes {
		return a, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	a.nonce = binary.LittleEndian.Uint64(b[2:])
	a.from = who{life{ID(b[10:26]), binary.LittleEndian.Uint64(b[26:])}, standing(b[34])}
	if kind == kindAnswer {
		return a, nil
	}
	text, _, err := cutString(b[askBytes:], 64)
	if err == nil {
		a.reply, err = netip.ParseAddrPort(text)
	}
	if err != nil || a.reply.Port() == 0 {
		return a, fmt.Errorf("%w: where to answer", errMessage)
	}
	return a, nil
}

// over says that a life is over.
type over struct {
	life   life
	reason overReason
	keep   time.Duration // for how long that is still to be remembered
}

// overReason is why a life is over.
type overReason uint8

const (
	overLeft   overReason = 1 // the node said so itself
	overForgot overReason = 2 // an operator did
)

func appendOvers(b []byte, list []over) []byte {
	b = append(b, messageVersion, kindOver)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(list)))
	for _, o := range list {
		b = append(b, o.life.id[:]...)
		b = binary.LittleEndian.AppendUint64(b, o.life.start)
		b = append(b, byte(o.reason))
		b = binary.LittleEndian.AppendUint32(b, uint32(min(max(o.keep/time.Second, 0), math.MaxUint32)))
	}
	return b
}

func decodeOvers(b []byte) ([]over, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	if b = b[4:]; n > overMax || len(b) < n*overBytes {
		return nil, fmt.Errorf("%w: %d lives in %d bytes", errMessage, n, len(b))
	}
	list := make([]over, n)
	for i := range list {
		e := b[i*overBytes:]
		list[i] = over{life{ID(e[:16]), binary.LittleEndian.Uint64(e[16:])}, overReason(e[24]),
			time.Duration(binary.LittleEndian.Uint32(e[25:])) * time.Second}
	}
	return list, nil
}

// kindOf is the kind of a message of this version; 0: it is none.
func kindOf(b []byte) byte {
	if len(b) < 2 || b[0] != messageVersion {
		return 0
	}
	return b[1]
}

// labelPrefix stands before the pool's ID in every packet and stream, so that another
// program's label, or none, is never a pool of ours.
const labelPrefix = "spillway pool "

func labelOf(poolID string) string { return labelPrefix + poolID }

// poolOfLabel is the pool's ID in a label.
func poolOfLabel(label string) (id string, ours bool) {
	if len(label) <= len(labelPrefix) || label[:len(labelPrefix)] != labelPrefix {
		return "", false
	}
	return label[len(labelPrefix):], true
}
