package load

import "math/rand/v2"

// Mix merges sources, each the load of one namespace: source i has namespace i.
// An op whose intended start has come goes first, the earliest before the
// others. Sources of closed loops share what is left by weight. Each is asked
// one op ahead. A source in a mix is no mix itself.
type Mix struct {
	sources []Source
	weights []float64
	rng     *rand.Rand
	next    []Op
	answers []Answer // of next; Wait if the source is to be asked again
}

// NewMix merges sources with these weights, one for each, above 0.
func NewMix(sources []Source, weights []float64, seed uint64) *Mix {
	m := &Mix{sources: sources, weights: weights, rng: newRand(seed, streamMix)}
	m.next, m.answers = make([]Op, len(sources)), make([]Answer, len(sources))
	for i := range m.answers {
		m.answers[i] = Wait
	}
	return m
}

// Next answers the op that comes first among all sources, Wait with the
// earliest time if none is due, or End if all have ended.
func (m *Mix) Next(nowNS int64, op *Op) Answer {
	first, wakeNS := -1, AtOnce
	weight, ended := 0.0, 0
	for i := range m.sources {
		if m.answers[i] == Wait {
			m.answers[i] = m.sources[i].Next(nowNS, &m.next[i])
		}
		at := m.next[i].IntendedNS
		switch {
		case m.answers[i] == End:
			ended++
		case m.answers[i] == Ready && at == AtOnce:
			weight += m.weights[i]
		case m.answers[i] == Ready && at <= nowNS:
			if first < 0 || at < m.next[first].IntendedNS {
				first = i
			}
		case at != AtOnce && (wakeNS == AtOnce || at < wakeNS):
			wakeNS = at
		}
	}
	switch {
	case first >= 0:
		return m.take(first, op)
	case weight > 0:
		return m.take(m.draw(weight), op)
	case ended == len(m.sources):
		return End
	}
	op.IntendedNS = wakeNS
	return Wait
}

// draw picks one of the sources with an op that is due at once; weight is
// the sum of theirs.
func (m *Mix) draw(weight float64) int {
	left, last := m.rng.Float64()*weight, -1
	for i := range m.sources {
		if m.answers[i] != Ready || m.next[i].IntendedNS != AtOnce {
			continue
		}
		last = i
		if left -= m.weights[i]; left < 0 {
			break
		}
	}
	return last
}

func (m *Mix) take(i int, op *Op) Answer {
	*op = m.next[i]
	op.Namespace = uint16(i)
	m.answers[i] = Wait
	return Ready
}

// Done tells the source that the op came from.
func (m *Mix) Done(op *Op, outcome Outcome, nowNS int64) {
	m.sources[op.Namespace].Done(op, outcome, nowNS)
}
