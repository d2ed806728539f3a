//! Is the server at this URL a Nacos 1.x naming server? Replays recorded scenarios and compares the answers.
//!
//! `golden` loads scenarios, `index` what is known of them, `written` has cases in code, `cases` are both. `greet` finds
//! out who answers, `agree` waits for members that have just started, `session` plays what can be played (`replay`, `run`: one scenario against a `target`; `compare`:
//! what differs) and takes away what that made (`ledger`, `cleanup`, `restore`). `score` adds up, `report` says it.
//! `trial` tries this program itself, by what stands `between` it and a server.
//! Everything goes through the doors that a client uses: HTTP and UDP. README.md describes the format.

#![allow(
    clippy::disallowed_types,
    reason = "one process of threads without a runtime: std's own locks will do"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "scenarios say how long to wait, and what a server does can only be polled"
)]

pub mod agree;
pub mod between;
pub mod cases;
pub mod cleanup;
pub mod clock;
pub mod compare;
pub mod facts;
pub mod finding;
pub mod golden;
pub mod greet;
pub mod index;
pub mod json;
pub mod ledger;
pub mod login;
pub mod mask;
pub mod member;
pub mod notice;
pub mod order;
pub mod progress;
pub mod replay;
pub mod report;
pub mod restore;
pub mod run;
pub mod score;
pub mod secrets;
pub mod session;
pub mod shown;
pub mod shuffle;
pub mod stop;
pub mod target;
pub mod timely;
pub mod trial;
pub mod tries;
pub mod vars;
pub mod written;
