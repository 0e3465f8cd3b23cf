package engine

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/engine/table"
)

// RecordFacts are a log record in words. Fields that a kind does not have are
// zero.
type RecordFacts struct {
	Kind        string     `json:"kind"`                  // put, free, delete, quarantine, segment gone, drop
	Namespace   uint32     `json:"namespace,omitempty"`   // number in the store file
	Incarnation uint32     `json:"incarnation,omitempty"` // of the namespace; of a drop: the last one dropped
	Put         *PutFacts  `json:"put,omitempty"`         // of a put
	Puts        []PutNamed `json:"puts,omitempty"`        // that a free ends; of a delete: IDs, and up to where their puts are gone
	Places      []string   `json:"places,omitempty"`      // that are quarantined
	Segment     uint32     `json:"segment,omitempty"`     // that is gone
}

// PutFacts are one published block, in the log or in the index.
type PutFacts struct {
	ID         string `json:"id"`         // 32 hex digits
	Place      string `json:"place"`      // segment and slot
	Checksum   string `json:"checksum"`   // XXH3-64 of the payload, 16 hex digits
	Depth      uint32 `json:"depth"`      // in the chain, root 0
	Importance uint8  `json:"importance"` // outranks age; 0 is ordinary
	Group      uint32 `json:"group"`      // cache group of the key
	Key        []byte `json:"-"`
}

// PutNamed names one put.
type PutNamed struct {
	ID       string `json:"id"`       // 32 hex digits
	Position uint64 `json:"position"` // log position of the put
}

func idText(id table.ID) string {
	raw := idBytes(id)
	return hex.EncodeToString(raw[:])
}

// InspectRecord puts a log record into words; the key aliases payload. The
// error matches ErrCorrupt.
func InspectRecord(payload []byte) (RecordFacts, error) {
	if len(payload) == 0 {
		return RecordFacts{}, fmt.Errorf("%w: empty log record", ErrCorrupt)
	}
	var err error
	f := RecordFacts{}
	switch payload[0] {
	case recordPut:
		var r putRecord
		r, err = decodePut(payload)
		f.Kind, f.Namespace, f.Incarnation = "put", r.namespace, r.incarnation
		f.Put = &PutFacts{idText(r.id), r.place.String(), fmt.Sprintf("%016x", r.checksum), r.depth, r.importance, r.group, r.key}
	case recordFree, recordDelete:
		if f.Kind = "free"; payload[0] == recordDelete {
			f.Kind = "delete"
		}
		err = decodeFree(payload, func(ns, incarnation uint32, it freeItem) {
			f.Namespace, f.Incarnation = ns, incarnation
			f.Puts = append(f.Puts, PutNamed{idText(it.id), it.position})
		})
	case recordQuarantine:
		f.Kind = "quarantine"
		err = decodeQuarantine(payload, func(p Place) { f.Places = append(f.Places, p.String()) })
	case recordSegmentGone:
		f.Kind = "segment gone"
		f.Segment, err = decodeSegmentGone(payload)
	case recordDrop:
		f.Kind = "drop"
		f.Namespace, f.Incarnation, err = decodeDrop(payload)
	default:
		err = fmt.Errorf("%w: log record of unknown kind %d", ErrCorrupt, payload[0])
	}
	if err != nil {
		return RecordFacts{}, err
	}
	return f, nil
}

// String is one line without the key.
func (f RecordFacts) String() string {
	of := fmt.Sprintf("namespace %d.%d", f.Namespace, f.Incarnation)
	switch f.Kind {
	case "put":
		return fmt.Sprintf("put %s, %v", of, f.Put)
	case "free", "delete":
		list := make([]string, len(f.Puts))
		for i, p := range f.Puts {
			list[i] = fmt.Sprintf("%s@%d", p.ID, p.Position)
		}
		return fmt.Sprintf("%s %s, %s", f.Kind, of, strings.Join(list, " "))
	case "quarantine":
		return "quarantine " + strings.Join(f.Places, " ")
	case "segment gone":
		return "segment gone " + segmentName(f.Segment)
	}
	return fmt.Sprintf("%s %s", f.Kind, of)
}

// String is one line without the key.
func (f *PutFacts) String() string {
	return fmt.Sprintf("ID %s, %s, checksum %s, depth %d, importance %d, group %d", f.ID, f.Place, f.Checksum, f.Depth, f.Importance, f.Group)
}
