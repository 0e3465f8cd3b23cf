package rdma

import "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"

// spareReceives are posted beyond those that blocks need: for immediates of blocks that a
// fence has taken back, which are on their way through the queue.
const spareReceives = 64

// linesOf is how many lines the result table of a port has.
func linesOf(p *fabric.Port) int { return min(linesMax, p.Limits.ReceivesMax-spareReceives) }
