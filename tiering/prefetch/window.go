package prefetch

import "time"

// Window wants the blocks behind the one that was just read.
type Window struct {
	tree   *tree
	blocks int
}

// WindowBlocks is how far a Window looks ahead unless told otherwise.
const WindowBlocks = 16

// NewWindow makes a predictor that looks so many blocks ahead and remembers so many;
// 0: WindowBlocks, BlocksMax.
func NewWindow(blocks, blocksMax int) *Window {
	if blocks == 0 {
		blocks = WindowBlocks
	}
	if blocksMax == 0 {
		blocksMax = BlocksMax
	}
	return &Window{newTree(blocksMax), blocks}
}

// Name implements Predictor.
func (w *Window) Name() string { return "window" }

// Saw implements Predictor.
func (w *Window) Saw(s Seen) []Want {
	_, last, c := w.tree.follow(&s)
	if s.Kind != Read || c == nil {
		return nil
	}
	return last.ahead(&s, w.blocks)
}

// ahead wants so many blocks behind one that was just read.
func (n *node) ahead(s *Seen, blocks int) []Want {
	if n.next == nil {
		return nil
	}
	want := Want{Space: s.Space, Group: s.Group, Depth: int(n.depth) + 1, Plan: &Plan{}}
	for next := n.next; next != nil && len(want.Keys) < blocks; next = next.next {
		want.Keys = append(want.Keys, next.key)
	}
	n.plan.end()
	n.plan = want.Plan
	return []Want{want}
}

// Tick implements Predictor: nothing happens by itself.
func (w *Window) Tick(time.Duration, int64, int64) (wants, spent []Want) { return nil, nil }
