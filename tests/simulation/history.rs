//! What happened in a run, in lines; kept only when a run is repeated to be told.

use std::{collections::BTreeSet, fmt::Write};

use super::seam::{At, MS};

/// Lines at most; the oldest go first.
const LINES: usize = 400_000;

/// A line, and the service that it is about; those about none concern all.
#[derive(Debug)]
struct Line {
    at: At,
    service: Option<usize>,
    text: String,
}

/// The lines so far.
#[derive(Debug, Default)]
pub struct History {
    is_kept: bool,
    lines: std::collections::VecDeque<Line>,
}

impl History {
    /// A history that is kept, or one that costs nothing.
    pub fn new(is_kept: bool) -> Self {
        Self { is_kept, lines: std::collections::VecDeque::new() }
    }

    /// Whether lines are of any use.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Notes a line, which is only made if it is kept.
    pub fn note(&mut self, at: At, service: Option<usize>, text: impl FnOnce() -> String) {
        if !self.is_kept {
            return;
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { at, service, text: text() });
    }

    /// The lines about some services and those about none, the last `count` of them.
    pub fn tell(&self, services: &BTreeSet<usize>, count: usize) -> String {
        let concerns = |line: &&Line| line.service.is_none_or(|service| services.contains(&service));
        let lines: Vec<&Line> = self.lines.iter().filter(concerns).collect();
        let mut told = String::new();
        if lines.len() > count {
            let _ = writeln!(told, "  ... {} earlier lines", lines.len() - count);
        }
        for line in &lines[lines.len().saturating_sub(count)..] {
            let (ms, us) = (line.at / MS, line.at % MS / 100);
            let _ = writeln!(told, "{:>4}.{:03}.{us} {}", ms / 1_000, ms % 1_000, line.text);
        }
        told
    }

    /// A digest of all lines, to tell whether two runs were the same.
    pub fn digest(&self) -> u64 {
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for line in &self.lines {
            mix(&line.at.to_le_bytes());
            mix(line.text.as_bytes());
        }
        digest
    }
}
