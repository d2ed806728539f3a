//! What can stand between this program and a server, to try the program itself: a relay for HTTP and UDP that makes a
//! correct server slow, or wrong in one thing.
//!
//! `relay` takes connections, `line` is one of them, `datagrams` carries pushes and acknowledgements; `message` takes
//! an answer apart and puts it together, `kind` says what it is an answer to, `place` names every part of it, `change` is
//! what is done to one of them.

mod change;
mod datagrams;
mod kind;
mod line;
mod message;
mod place;
mod relay;

pub use change::{Change, How, Lost, Resend};
pub use kind::Kind;
pub use place::{Place, places};
pub use relay::{Manner, Relay, Seen};
