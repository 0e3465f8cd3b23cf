package units_test

import (
	"testing"

	"github.com/spillway-kv/spillway/fio/units"
)

func TestParseBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64 // -1: an error
	}{
		{"64MiB", 64 << 20}, {"64MB", 64_000_000}, {"64", 64}, {"1.5GiB", 3 << 29}, {"4KIB", 4096}, {"4 KiB", 4096},
		{"-1", -1}, {"4X", -1}, {"", -1},
		{"4k", 4096}, {"4K", 4096}, {"4kB", 4000}, {"4M", 4 << 20}, {"2G", 2 << 30}, {"1T", 1 << 40}, {"1TB", 1e12}, {"0", 0}, {"12B", 12},
		{"0.5kiB", 512}, {".5kiB", 512}, {"9223372036854775807", 1<<63 - 1}, {"8388607TiB", 8388607 << 40},
		{"9223372036854775808", -1}, {"8388608TiB", -1}, {"1.5", -1}, {"0.0001KiB", -1}, {"1.2.3", -1}, {"KiB", -1}, {".", -1},
		{"4  KiB", -1}, {" 4KiB", -1}, {"4KiB ", -1}, {"4Kib/s", -1}, {"0x10", -1}, {"1e3", -1}, {"+1", -1}, {"1/2", -1}, {"1_000", -1},
		{"NaN", -1}, {"Inf", -1}, {"4Kib", 4096}, {"99999999999999999999999999999999999999999999", -1},
	} {
		got, err := units.ParseBytes(c.text)
		if (c.want < 0) != (err != nil) || err == nil && got != c.want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 2 << 30: "2 GiB", 1<<63 - 1: "8 EiB"} {
		if got := units.Bytes(n); got != want {
			t.Errorf("units.Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
