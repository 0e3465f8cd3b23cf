package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// jsonFlag is for commands that report.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print one JSON object with a type field; errors go to stderr as JSON."`
}

// printJSON writes v, which has a type field, as one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table writes rows in aligned columns; the first row is the header, or empty.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// hexMark starts the written form of a key that is not plain text.
const hexMark = "hex:"

// showKey writes a key as text if it is printable ASCII without spaces, else
// as hex: and its bytes in hex. readKey is its inverse.
func showKey(key []byte) string {
	plain := !strings.HasPrefix(string(key), hexMark)
	for _, b := range key {
		plain = plain && b > ' ' && b < 0x7f
	}
	if plain {
		return string(key)
	}
	return hexMark + hex.EncodeToString(key)
}

// readKey reads a key from the command line.
func readKey(text string) ([]byte, error) {
	key := []byte(text)
	if digits, isHex := strings.CutPrefix(text, hexMark); isHex {
		var err error
		if key, err = hex.DecodeString(digits); err != nil {
			return nil, usagef("write hex: and two hex digits a byte", "key %.60q: %v", text, err)
		}
	}
	if len(key) == 0 || len(key) > 1024 {
		return nil, usagef("give another key", "a key of %d bytes: a key has 1 to 1024 bytes", len(key))
	}
	return key, nil
}
