package engine

// FIXME later
// XXX what is this
// TODO some day
// TODO(somebody): some day
// TODO(#12): a good one
// mktemp -d .demo-XXXXXX is fine
