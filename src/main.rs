//! Runs the command line and turns its result into an exit code.
fn main() {}
