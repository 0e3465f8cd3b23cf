package pool

// SetPushBytes makes calls that carry blocks smaller than they are.
func (p *Pool) SetPushBytes(n int) { p.pushBytes = n }
