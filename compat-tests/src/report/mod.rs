//! What a run found out, for people and for programs: `text`, `json`, `junit`, `html`; `bytes` shows where two texts part.
//! `replayed` is the short form for those who replay recordings from their own tests.

mod bytes;
mod html;
mod json;
mod junit;
mod replayed;
mod run;
mod text;

pub use bytes::Parting;
pub use html::html;
pub use json::json;
pub use junit::junit;
pub use replayed::Report;
pub use run::Run;
pub use text::text;
