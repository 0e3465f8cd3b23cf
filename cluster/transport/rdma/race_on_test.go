//go:build race

package rdma_test

// raced says that the race detector watches, which makes everything several times slower.
const raced = true
