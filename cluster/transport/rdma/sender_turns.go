package rdma

// The requests of a rail take turns, so that no large fetch keeps others waiting: a turn is
// turnBytes of one request, and the rest of a larger block has another.

// batchBytes is how much a turn has at most: what comes first can be verified while the rest
// is on its way.
const batchBytes = 4 << 20

// turnBytes is a quarter of what is posted, so that what a turn makes others wait for is
// little beside what is ahead of them anyway; at least one write.
func turnBytes(o *Options) int { return max(o.PieceBytes, min(batchBytes, int(o.PostedBytes/4))) }

// waiting are the blocks of one request that a sender has and does not post now.
type waiting struct {
	r      *asked
	rest   *outgoing   // a block of which some was posted; nil: none
	blocks []*outgoing // of which nothing was
}

// take takes all blocks.
func (w *waiting) take() (all []*outgoing) {
	if w.rest != nil {
		all = append(all, w.rest)
	}
	all = append(all, w.blocks...)
	w.rest, w.blocks = nil, nil
	return all
}

// add queues a block; false if nothing is posted any more.
func (d *sender) add(o *outgoing) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false
	}
	d.begun = true
	w := d.waiting[o.r]
	if w == nil {
		w = &waiting{r: o.r}
		d.waiting[o.r] = w
		d.turns = append(d.turns, w)
		d.changed.Broadcast()
	}
	w.blocks = append(w.blocks, o)
	return true
}

// withdraw takes blocks of a request that is halted off the queue.
func (d *sender) withdraw(r *asked) {
	var off []*outgoing
	d.mu.Lock()
	if w := d.waiting[r]; w != nil {
		off = w.take() // next passes it over
	}
	d.changed.Broadcast()
	d.mu.Unlock()
	d.release(nil, off...)
}

// next waits for a request whose turn it is, and gives its first block; nil: nothing is
// posted any more. The turn ends with done.
func (d *sender) next() (w *waiting, o *outgoing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for !d.dead && len(d.turns) == 0 {
			d.changed.Wait()
		}
		if d.dead {
			return nil, nil
		}
		w, d.turns[0] = d.turns[0], nil
		d.turns = d.turns[1:]
		if o, w.rest = w.rest, nil; o != nil {
			return w, o
		}
		if o = w.popLocked(); o != nil {
			return w, o
		}
		delete(d.waiting, w.r)
	}
}

// follower gives the next block of the request that has its turn, if there is one and it has
// no more than so many bytes.
func (d *sender) follower(w *waiting, most int) *outgoing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead || len(w.blocks) == 0 || w.blocks[0].left() > most {
		return nil
	}
	return w.popLocked()
}

func (w *waiting) popLocked() *outgoing {
	if len(w.blocks) == 0 {
		return nil
	}
	o := w.blocks[0]
	w.blocks[0] = nil
	w.blocks = w.blocks[1:]
	return o
}

// done ends a turn: what is left of the request has another, behind the others. rest is a
// block of which some was posted, or nil.
func (d *sender) done(w *waiting, rest *outgoing) {
	d.mu.Lock()
	if rest != nil && !w.r.over() { // else it was withdrawn, or will be, without rest
		w.rest, rest = rest, nil
	}
	if w.rest != nil || len(w.blocks) > 0 {
		d.turns = append(d.turns, w)
	} else {
		delete(d.waiting, w.r)
	}
	d.mu.Unlock()
	if rest != nil {
		d.release(nil, rest)
	}
}
