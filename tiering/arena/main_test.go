package arena

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is an arena of 4 KiB pages; whatever a test has not released by its end
// is an error.
func small(t testing.TB, nBytes int64) *Arena {
	t.Helper()
	a, err := New(Options{Bytes: nBytes, Pages: PagesSmall})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return a
}

func get(t testing.TB, a *Arena, nBytes int) Frame {
	t.Helper()
	f, err := a.Get(nBytes)
	if err != nil {
		t.Fatalf("%d bytes: %v; %+v", nBytes, err, a.Usage())
	}
	return f
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}
