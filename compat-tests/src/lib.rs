//! Compat tests.
