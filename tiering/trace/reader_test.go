package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

const goodLines = `{"timestamp": 0, "input_length": 1025, "output_length": 5, "hash_ids": [0, 1, 2]}
{"hash_ids":[0,18446744073709551615],"timestamp":3000,"input_length":600,"output_length":0,"other":{"a":[null]}}

{"timestamp": 3000, "input_length": 0, "output_length": 1, "hash_ids": []}`

var goodRequests = []Request{
	{TimestampMS: 0, InputLength: 1025, OutputLength: 5, HashIDs: []uint64{0, 1, 2}},
	{TimestampMS: 3000, InputLength: 600, HashIDs: []uint64{0, 1<<64 - 1}},
	{TimestampMS: 3000, OutputLength: 1, HashIDs: []uint64{}},
}

func compress(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func readAll(src Source) ([]Request, error) {
	var all []Request
	for {
		q, err := src.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, q)
	}
}

func TestReaderPlainAndCompressed(t *testing.T) {
	for name, content := range map[string][]byte{
		"plain.jsonl":   []byte(goodLines),
		"crlf.zst":      []byte(strings.ReplaceAll(goodLines, "\n", "\r\n")), // the name does not matter
		"compressed":    compress(t, []byte(goodLines)),
		"empty":         nil,
		"only newlines": []byte("\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(r)
			if err != nil {
				t.Fatal(err)
			}
			want := goodRequests
			if len(content) < 10 {
				want = nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReaderFaults(t *testing.T) {
	const first = `{"timestamp": 7, "input_length": 1, "output_length": 1, "hash_ids": [0]}` + "\n"
	line := func(timestamp, in, out, ids string) string {
		return fmt.Sprintf(`{"timestamp": %s, "input_length": %s, "output_length": %s, "hash_ids": %s}`, timestamp, in, out, ids)
	}
	for _, c := range []struct{ name, second, want string }{
		{"cut", `{"timestamp": 8, "inp`, "line 2: malformed JSON"},
		{"two on a line", line("8", "1", "1", "[1]") + line("8", "1", "1", "[1]"), "line 2: malformed JSON"},
		{"no ids", `{"timestamp": 8, "input_length": 1, "output_length": 1}`, "line 2: no hash_ids"},
		{"nothing", `{}`, "line 2: no timestamp, no input_length, no output_length, no hash_ids"},
		{"null ids", line("8", "1", "1", "null"), "line 2: hash_ids must be a list"},
		{"null id", line("8", "1", "1", "[1,null]"), "line 2: hash_ids must be a list"},
		{"negative id", line("8", "1", "1", "[1,-1]"), "-1 is among them"},
		{"fraction id", line("8", "1", "1", "[1.5]"), "1.5 is among them"},
		{"huge id", line("8", "1", "1", "[18446744073709551616]"), "18446744073709551616 is among them"},
		{"text id", line("8", "1", "1", `["a"]`), `"a" is among them`},
		{"nested ids", line("8", "1", "1", "[[1]]"), "[1] is among them"},
		{"negative timestamp", line("-8", "1", "1", "[1]"), "line 2: timestamp -8 is negative"},
		{"negative input", line("8", "-1", "1", "[1]"), "line 2: input_length -1 is negative"},
		{"huge input", line("8", "99999999999", "1", "[1]"), "line 2: input_length 99999999999 is more than"},
		{"text timestamp", line(`"8"`, "1", "1", "[1]"), "line 2: timestamp must be a whole number, not string"},
		{"back in time", line("6", "1", "1", "[1]"), "line 2: timestamp 6 comes after 7"},
		{"array", `[1]`, "line 2: not a JSON object"},
		{"csv", `8,1,1`, "line 2: not a JSON object"},
		{"latin 1", "{\"a\": \"\xe9\"}", "line 2: not UTF-8"},
		{"binary", "\x00\x01", "line 2: not a JSON object"},
		{"endless", strings.Repeat("a", lineBytesMax+1), "line 2: longer than 16777216 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := NewReader(strings.NewReader(first+c.second+"\n"), "some.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(r)
			var fault *Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) || fault.File != "some.jsonl" {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if len(got) != 1 {
				t.Errorf("%d requests before the fault, want 1", len(got))
			}
			if _, again := r.Next(); again != err {
				t.Errorf("second Next: %v, want the same error", again)
			}
		})
	}
}

func TestReaderLongLine(t *testing.T) {
	ids := strings.Repeat("123456789,", 200_000) + "1" // 2 MB: longer than the buffer
	text := `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[` + ids + "]}\n"
	r, err := NewReader(strings.NewReader(text+text), "long")
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(r)
	if err != nil || len(got) != 2 || len(got[1].HashIDs) != 200_001 {
		t.Fatalf("%d requests, error %v", len(got), err)
	}
}

func TestReaderDamagedFiles(t *testing.T) {
	whole := compress(t, []byte(goodLines))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-3] ^= 1 // in the checksum of the content
	for name, c := range map[string]struct {
		src  io.Reader
		want string
	}{
		"cut zstd":     {bytes.NewReader(whole[:len(whole)/2]), "ends in the middle"},
		"flipped zstd": {bytes.NewReader(flipped), "cannot be decompressed"},
		"gzip":         {strings.NewReader("\x1f\x8b\x08rest"), "gzip"},
		"read error":   {iotest.ErrReader(errors.New("medium error")), "medium error"},
		"late error": {io.MultiReader(strings.NewReader(goodLines), iotest.ErrReader(errors.New("medium error"))),
			"line 4: cannot be read: medium error"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewReader(c.src, "damaged")
			if err == nil {
				_, err = readAll(r)
			}
			var fault *Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

// FuzzReader wants: no panic, every fault typed, and every accepted request
// unchanged when written out and read again.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{goodLines, "", "\n", "{}", `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[0]}`,
		`{"timestamp":1e3,"input_length":1,"output_length":1,"hash_ids":[0]}`, "\x1f\x8b", "\x28\xb5\x2f\xfd", "\xff\xfe"} {
		f.Add([]byte(seed))
	}
	f.Add(compress(f, []byte(goodLines)))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewReader(bytes.NewReader(text), "fuzz")
		var got []Request
		if err == nil {
			defer r.Close()
			got, err = readAll(r)
		}
		var fault *Error
		if err != nil && !errors.As(err, &fault) {
			t.Fatalf("untyped error %v", err)
		}
		var out bytes.Buffer
		for _, q := range got {
			ids, err := json.Marshal(q.HashIDs)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":%s}`+"\n",
				q.TimestampMS, q.InputLength, q.OutputLength, ids)
		}
		again, err := NewReader(&out, "again")
		if err != nil {
			t.Fatal(err)
		}
		if back, err := readAll(again); err != nil || !reflect.DeepEqual(back, got) {
			t.Fatalf("read back %+v, error %v; want %+v", back, err, got)
		}
	})
}
