package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/tiering/memory"
	"github.com/spillway-kv/spillway/tiering/model"
)

// Error says what is wrong with a configuration, and where.
type Error struct {
	File string // empty: the flags
	Line int    // 0: the whole
	Text string
}

func (e *Error) Error() string {
	switch {
	case e.File == "":
		return e.Text
	case e.Line == 0:
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// fileBytesMax bounds what is read of a configuration, or of a token's file.
const fileBytesMax = 1 << 20

// Load reads a configuration file and fills in the defaults. The error is that of
// the system, or an *Error. It is not checked yet.
func Load(path string) (*File, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// readFile reads a configuration or a token's file.
func readFile(path string) ([]byte, error) { return model.ReadFile(path, fileBytesMax) }

// Parse is Load of text that came from path.
func Parse(path string, text []byte) (*File, error) {
	f := Default()
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(f); err != nil {
		return nil, explain(path, text, err)
	}
	if err := refuseZeros(text); err != nil {
		return nil, &Error{File: path, Text: err.Error()}
	}
	f.setDefaults()
	if wrong := f.Pool.check(); wrong != nil {
		return nil, &Error{File: path, Line: lineOfKey(text, "pool", wrong.key), Text: wrong.Error()}
	}
	return f, nil
}

// Default is the configuration of an empty file. It lacks a store.
func Default() *File {
	o := node.Options{}.WithDefaults()
	return &File{
		Socket: Socket{Path: DefaultSocket, Mode: Mode{0o660}},
		Limits: Limits{Connections: o.ConnectionsMax, Requests: o.RequestsMax, Namespaces: o.NamespacesMax, Regions: o.RegionsMax,
			RegionBytes: Size(o.RegionBytesMax), Keys: o.KeysMax, Leases: o.LeasesMax, Patience: Duration{o.Patience},
			StallTime: Duration{o.StallTime}, StopTime: Duration{defaultStopTime}, PinnedMemory: true},
		Puts:      Puts{QueueBytes: Size(o.PutQueueBytes), QueueTime: Duration{o.PutQueueTime}},
		Admission: Admission{Admit: o.Admission.Admit, WriteBurst: Duration{o.Admission.WriteBurst}, WearBurst: Duration{o.Admission.WearBurst}},
		Memory:    Memory{Mode: string(memory.Exclusive), NUMA: NUMAAuto, Prefetch: node.PrefetchModel},
		Gate:      Gate{TP: 1},
		Pool:      defaultPool(),
		Log:       Log{Level: "info", Format: "text"},
	}
}

// setDefaults fills in what only an entry of a list can lack.
func (f *File) setDefaults() {
	for i := range f.Stores {
		f.Stores[i].setDefaults()
	}
	for i := range f.Namespaces {
		setDefault(&f.Namespaces[i].Share, 1)
	}
}

// NewStore is the store in dir, with defaults.
func NewStore(dir string) Store {
	s := Store{Dir: dir}
	s.setDefaults()
	return s
}

func (s *Store) setDefaults() {
	o := engine.Options{}.WithDefaults()
	setDefault(&s.IOEngine, o.IOEngine)
	setDefault(&s.Policy, evict.Default)
	setDefault(&s.Rings, o.Rings)
	setDefault(&s.QueueDepth, o.QueueDepth)
	setDefault(&s.IndexMemory, Size(o.IndexMemoryMaxBytes))
	setDefault(&s.FrameMemory, Size(o.FrameBytes))
	setDefault(&s.SyncInterval.Duration, o.SyncInterval)
	setDefault(&s.LeaseMax.Duration, o.LeaseMax)
	setDefault(&s.LeaseShare, o.LeaseShare)
	setDefault(&s.LockWait.Duration, o.LockWait)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// neverZero are the keys of lists that have a default other than 0.
var neverZero = []string{"policy", "ioengine", "rings", "queue_depth", "index_memory", "frame_memory", "sync_interval", "lease_max", "lease_share",
	"lock_wait", "share"}

// refuseZeros refuses what setDefaults would take for a key that is not there.
func refuseZeros(text []byte) error {
	var whole map[string]any
	if err := toml.Unmarshal(text, &whole); err != nil {
		return err
	}
	for _, list := range []string{"store", "namespace"} {
		entries, _ := whole[list].([]any) // its type was right before
		for i, e := range entries {
			entry, _ := e.(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(entry)) {
				if slices.Contains(neverZero, key) && slices.Contains([]any{int64(0), 0.0, "0", "0s", ""}, entry[key]) {
					return fmt.Errorf("%s of [[%s]] number %d is %v; leave the key out for its default", key, list, i+1, entry[key])
				}
			}
		}
	}
	return nil
}

// explain finds the line of what the decoder complains about.
func explain(path string, text []byte, err error) error {
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		first := &unknown.Errors[0]
		line, _ := first.Position()
		key := first.Key()
		text := fmt.Sprintf("unknown key %s", strings.Join(key, "."))
		if known := keysOf(reflect.TypeFor[File](), key[:len(key)-1]); len(known) > 0 {
			text += "; known here are " + strings.Join(known, ", ")
		}
		return &Error{path, line, text}
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		text := inWords(strings.TrimPrefix(wrong.Error(), "toml: "))
		if key := strings.Join(wrong.Key(), "."); key != "" && !strings.Contains(text, key) {
			text = key + ": " + text
		}
		return &Error{path, line, text}
	}
	return &Error{File: path, Line: lineOf(text, err), Text: strings.TrimPrefix(err.Error(), "toml: ")}
}

// wrongType is what the decoder says of a value of another type than its key's.
var wrongType = regexp.MustCompile(`^cannot decode TOML (.+) into (?:struct field \S+ of type )?(\S+)$`)

// inWords says what type a value should have without Go's words for it.
func inWords(text string) string {
	m := wrongType.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	want := map[string]string{"int": "a whole number", "int64": "a whole number", "uint32": "a whole number", "float64": "a number", "bool": "true or false",
		"string": "text in quotes", "[]string": `a list such as ["a", "b"]`}[m[2]]
	if want == "" {
		return text
	}
	return fmt.Sprintf("its value is of type %s, want %s", m[1], want)
}

// lineOf is the line whose value was refused with this error: the first with which the
// text up to there is refused so. The decoder names none where a value has the wrong type.
func lineOf(text []byte, err error) int {
	ends := []int{}
	for i, c := range text {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	ends = append(ends, len(text))
	return 1 + sort.Search(len(ends)-1, func(i int) bool {
		part := toml.NewDecoder(bytes.NewReader(text[:ends[i]])).DisallowUnknownFields().Decode(Default())
		return part != nil && part.Error() == err.Error()
	})
}

// keysOf lists the keys of the table at a path; none if there is no such table.
func keysOf(t reflect.Type, path []string) (keys []string) {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name := f.Tag.Get("toml")
		switch {
		case name == "":
		case len(path) == 0:
			keys = append(keys, name)
		case name == path[0]:
			return keysOf(f.Type, path[1:])
		}
	}
	return keys
}
