// Package sim is RDMA in memory, with seeded faults, for tests: a Network of machines, each
// a fabric.Fabric whose devices write into memory of this process. Time is the time
// package's, so that in a bubble of testing/synctest a network with delays is instant.
//
// What it is true to:
//
//   - A posted write is cut into bursts of packets. Each is read from its source when it is
//     sent and lands when it arrives, in order, so that whoever uses memory without a fence
//     sees it change. What is on its way lands although its sender is destroyed, in error
//     or dead meanwhile.
//   - A completion is the acknowledgement, a way back later. It says that the receiver's device
//     has the bytes: they may come into its memory later (Config.SettleMax), if no receive
//     has completed behind them. Where packets or
//     acknowledgements are lost (Cut, a port that is down, a queue pair that is gone) the
//     sender tries again each timeout of its Path, reading the source again, and after all
//     retries fails with NoAnswer. The other side is not told.
//   - A write that is refused puts both queue pairs in error; its own list is told, those
//     behind it perhaps. Without a receive only the sender is, and all but the last burst
//     has landed.
//   - A process that is stopped (Stop) posts nothing and takes no completion; its device goes
//     on with what was posted before. Of a machine that is frozen (Freeze) nothing goes on, and
//     what arrives there lands when it thaws.
//   - A process that dies (Kill) has its queue pairs and regions destroyed, and nobody is
//     told.
//   - Destroy and Deregister are fences: they take effect between two bursts.
//
// Not here: congestion, packets out of order, memory of GPUs.
//
// A Network has one mutex, held while a burst is copied; one goroutine for each connected
// queue pair carries what that one sends. Network.Close waits for them.
package sim
