package place

// RunBlocksMax is the most blocks of a run.
const RunBlocksMax = 64

// Runs cuts what is new of a put into runs: blocks by rising index, RunBlocksMax of them at
// most, each run to live on one node. What is not new between two blocks does not part them.
func Runs(fresh []int) [][]int {
	runs := make([][]int, 0, (len(fresh)+RunBlocksMax-1)/RunBlocksMax)
	for len(fresh) > 0 {
		n := min(RunBlocksMax, len(fresh))
		runs = append(runs, fresh[:n:n])
		fresh = fresh[n:]
	}
	return runs
}
