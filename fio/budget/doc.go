// Package budget finds the time of one token that block reads are measured
// against, and says where it comes from. Sources, in the order in which they are
// trusted: a number that the operator gives; a metric that a running engine shows; a
// measurement kept in a file; the roofline of a named model and GPU, or a limit of
// MLPerf. If several are asked for, the most trusted one decides; one that
// fails is an error and never gives way to a lesser one.
package budget
