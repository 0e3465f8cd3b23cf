package engine_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// wrapPolicies is an Options.Policy: each LRU in what wrap makes of it.
func wrapPolicies(wrap func(evict.Policy) evict.Policy) func(int) (evict.Factory, error) {
	return func(most int) (evict.Factory, error) {
		f, err := evict.NewLRU(most)
		return wrappedFactory{f, wrap}, err
	}
}

type wrappedFactory struct {
	evict.Factory
	wrap func(evict.Policy) evict.Policy
}

func (f wrappedFactory) New() evict.Policy { return f.wrap(f.Factory.New()) }

// countedFactory tells of its end.
type countedFactory struct {
	evict.Factory
	freed *int
}

func (f countedFactory) Free() { *f.freed++; f.Factory.Free() }

// TestOnePolicyFactory: however many namespaces there are, opened before or new,
// and however often they are dropped, the store makes one factory, whose memory they
// share; and a dropped namespace leaves nothing behind in it.
func TestOnePolicyFactory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 12
		r := newRig(t, sim.Config{})
		made, freed := 0, 0
		var policies []evict.Policy
		o := engine.Options{Policy: func(most int) (evict.Factory, error) {
			made++
			f, err := wrapPolicies(func(p evict.Policy) evict.Policy {
				policies = append(policies, p)
				return p
			})(most)
			return countedFactory{f, &freed}, err
		}}
		for life := range 2 {
			policies = nil
			s := r.open(small(o))
			for round := range 3 { // the numbers of one's blocks become those of others
				for n := range many {
					ns := namespace(t, s, fmt.Sprint(n), 4096)
					all(t, put(t, ns, engine.PutOptions{}, sequence(100*round, 8)...), engine.Stored, engine.Present)
				}
				for n := round % 2; n < many; n += 2 {
					before := len(policies)
					must(t, namespace(t, s, fmt.Sprint(n), 4096).Drop())
					if len(policies) != before+1 {
						t.Fatalf("a drop made %d policies", len(policies)-before)
					}
				}
				must(t, s.CheckSlots())
			}
			held := 0
			for _, p := range policies {
				held += p.Len()
			}
			if want := s.Stat().Blocks; held != want || want == 0 {
				t.Errorf("all policies ever made hold %d blocks, the store has %d", held, want)
			}
			mustClose(t, s)
			if made != life+1 || freed != life+1 {
				t.Fatalf("after %d lives %d factories were made, %d freed", life+1, made, freed)
			}
		}
	})
}

// TestPolicyRefused: a factory that cannot be had is an error of Open, which leaves
// nothing behind; and the factory goes when a later step of Open fails.
func TestPolicyRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sim.Config{})
		s := r.open(small(engine.Options{}))
		ns := namespace(t, s, "a", 4096)
		all(t, put(t, ns, engine.PutOptions{}, sequence(0, 5)...), engine.Stored)
		mustClose(t, s)
		_, err := r.tryOpen(engine.Options{Policy: func(int) (evict.Factory, error) {
			return nil, fmt.Errorf("reserve: %w", syscall.ENOMEM)
		}})
		if !errors.Is(err, syscall.ENOMEM) {
			t.Fatalf("error %v, want %v", err, syscall.ENOMEM)
		}
		freed := 0
		must(t, r.fs.RemoveAll("index"))
		_, err = r.tryOpen(engine.Options{RefuseLostIndex: true, Policy: func(most int) (evict.Factory, error) {
			f, err := evict.NewLRU(most)
			return countedFactory{f, &freed}, err
		}})
		wantErr(t, err, engine.ErrIndexLost)
		if freed != 1 {
			t.Errorf("the factory was freed %d times", freed)
		}
		mustClose(t, r.open(engine.Options{}))
	})
}
