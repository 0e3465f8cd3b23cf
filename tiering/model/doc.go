// Package model says what a token costs: the KV bytes of a model, the time of a
// decode step and of a prompt on a GPU by roofline, and from which read rate on
// loading a prefix beats computing it again.
//
// A Model comes from the table (Find), or from a config.json in the form of
// Hugging Face (FromConfig). A GPU comes from the table (FindGPU), or from its bus
// (GPUOfBus). A Setup puts them together. All of them are plain values that
// nobody changes, and free for any number of goroutines.
//
// A roofline is a bound: no engine is faster than its memory and its arithmetic
// allow. Real ones are slower (docs/budget.md has both side by side), so whatever
// was measured overrides it.
package model
