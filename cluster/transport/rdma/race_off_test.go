//go:build !race

package rdma_test

const raced = false
