package pool

// SetPushBytes makes calls that carry blocks smaller than they are.
func (p *Pool) SetPushBytes(n int) { p.pushBytes = n }

// SetDrains makes the node take no new blocks, and nothing more.
func (p *Pool) SetDrains() error {
	err := p.setDrains(true)
	p.announce()
	return err
}
