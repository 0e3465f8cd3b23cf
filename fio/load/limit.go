package load

// limit ends a source after so many ops or bytes.
type limit struct {
	Source
	opsLeft   int64 // Endless: no bound
	bytesLeft int64
}

// Next is that of Source.
func (l *limit) Next(nowNS int64, op *Op) Answer {
	if l.opsLeft == 0 || l.bytesLeft == 0 {
		return End
	}
	answer := l.Source.Next(nowNS, op)
	if answer == Ready {
		if l.opsLeft > 0 {
			l.opsLeft--
		}
		if l.bytesLeft > 0 {
			l.bytesLeft = max(0, l.bytesLeft-int64(op.Bytes))
		}
	}
	return answer
}
