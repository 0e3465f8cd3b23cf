package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

const kvioHeader = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"

// readKVIO answers the lines of a trace in words.
func readKVIO(text []byte) (all []string, err error) {
	r, err := NewKVIOReader(bytes.NewReader(text), "t.csv")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		q, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			if _, again := r.Next(); again != err {
				return nil, fmt.Errorf("after %w another error: %w", err, again)
			}
			return all, err
		}
		all = append(all, fmt.Sprint(q.TimeNS, q.Write, q.Bytes, q.Tier, " ", string(q.Key)))
	}
}

func TestKVIO(t *testing.T) {
	text := kvioHeader + "1718000000.5,Write,134217728,Tier-2,conv_17_turn_3,Prefill\r\n" +
		"1718000000.25,Read,1,Tier-0,a b,Decode\n\n1718000002,Read,5,Tier-1,k,Evict"
	want := []string{"0 true 134217728 2 conv_17_turn_3", "0 false 1 0 a b", "1500000000 false 5 1 k"}
	for name, raw := range map[string][]byte{"plain": []byte(text), "compressed": compress(t, []byte(text))} {
		if got, err := readKVIO(raw); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	swapped := "Key,Tier,Object_Size_Bytes,Operation,Timestamp\nk,Tier-2,7,Read,1"
	if got, err := readKVIO([]byte(swapped)); err != nil || !slices.Equal(got, []string{"0 false 7 2 k"}) {
		t.Errorf("columns in another order: %q, %v", got, err)
	}
}

func TestKVIOFaults(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "header is missing"},
		{"Timestamp,Operation,Tier,Key\n", "Object_Size_Bytes"},
		{kvioHeader + "1,Read,5,Tier-2,k", "5 fields where the header has 6"},
		{kvioHeader + "x,Read,5,Tier-2,k,P", "seconds"},
		{kvioHeader + "NaN,Read,5,Tier-2,k,P", "seconds"},
		{kvioHeader + "1e300,Read,5,Tier-2,k,P", "seconds"},
		{kvioHeader + "1,read,5,Tier-2,k,P", "Read nor Write"},
		{kvioHeader + "1,Read,-5,Tier-2,k,P", "bytes"},
		{kvioHeader + "1,Read,5,Tier-3,k,P", "Tier-0"},
		{kvioHeader + "1,Read,5,Tier-2,,P", "no key"},
	} {
		_, err := readKVIO([]byte(row.text))
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), row.want) || fault.File != "t.csv" {
			t.Errorf("%q: %v, which does not say %q", row.text, err, row.want)
		}
	}
}

func readAzure(text string) ([]Request, error) {
	r, err := NewAzureReader(strings.NewReader(text), "t.csv")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAll(r)
}

func TestAzure(t *testing.T) {
	got, err := readAzure(azureHeader + "\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109")
	if err != nil || len(got) != 2 || got[0].InputLength != 374 || got[1].OutputLength != 109 ||
		got[0].TimestampMS != 0 || got[1].TimestampMS != 4314 || got[0].HashIDs != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, row := range []struct{ text, want string }{
		{"a,b,c\n", "header"},
		{azureHeader + "\n1,2", "2 fields"},
		{azureHeader + "\nnow,1,2", "time"},
		{azureHeader + "\n2023-11-16 18:15:46,1,-2", "tokens"},
		{azureHeader + "\n2023-11-16 18:15:46,1,2\n2023-11-16 18:15:45,1,2", "order"},
	} {
		if _, err := readAzure(row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, which does not say %q", row.text, err, row.want)
		}
	}
}

// TestAzureTrace reads the public trace, where it is at hand.
func TestAzureTrace(t *testing.T) {
	const path = "../../../shared/reference/traces/azure2023_conv.csv.zst"
	r, err := OpenAzure(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the trace is not here")
	} else if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := readAll(r)
	if err != nil || len(all) != 19_366 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	var in []int
	for _, q := range all {
		in = append(in, q.InputLength)
	}
	slices.Sort(in)
	if p50, p90, p99 := percentile(in, .5), percentile(in, .9), percentile(in, .99); p50 != 1_020 || p90 != 2_734 || p99 < 4_140 || p99 > 4_144 {
		t.Errorf("input P50 %d, P90 %d, P99 %d", p50, p90, p99)
	}
}
