//! How many bytes answers of legacy servers may take together, from when they are read until their clients have them.
//!
//! Short answers aren't counted: of those there are as many as requests may be under way. Source: ours.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all answers together.
pub(super) const MOST_BYTES: usize = 256 << 20;
/// Bytes of an answer that aren't counted.
const SHORT: usize = 64 << 10;
/// Bytes of a permit, which are counted in 32 bits.
const UNIT: usize = 1 << 10;

/// The room of all answers.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// There is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The room that an answer takes; given back when it is dropped.
#[derive(Clone, Debug)]
pub struct Held {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Held {
    /// Bytes that give their room back when the last of their clones is dropped.
    #[must_use]
    pub fn by(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(HeldBytes { bytes, _held: self })
    }
}

struct HeldBytes {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What an answer holds while it grows.
#[derive(Debug)]
pub(super) struct Growing {
    room: Room,
    permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))))
    }

    /// For one more answer.
    pub fn enter(&self) -> Growing {
        Growing { room: self.clone(), permit: None }
    }
}

impl Growing {
    /// Takes room for so many bytes in all.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let wanted = bytes.saturating_sub(SHORT).div_ceil(UNIT);
        let more = wanted.saturating_sub(self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).map_err(|_| NoRoom)?;
        let permit = Arc::clone(&self.room.0).try_acquire_many_owned(more).map_err(|_| NoRoom)?;
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }

    /// It has grown: what it holds; nothing where it is short.
    pub fn held(self) -> Option<Held> {
        self.permit.map(|permit| Held { _permit: Arc::new(permit) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_stay_within_the_room_and_give_it_back_when_nobody_has_them_any_more() {
        let room = Room::new(100 << 10);
        let grown = |bytes: usize| {
            let mut growing = room.enter();
            growing.grow_to(bytes).map(|()| growing)
        };
        let mut first = grown(SHORT + 60_000).unwrap();
        assert_eq!(first.grow_to(SHORT + 103_000), Err(NoRoom));
        assert_eq!(first.grow_to(SHORT + 61_000), Ok(()));
        assert_eq!(grown(SHORT + 60_000).unwrap_err(), NoRoom);
        let second = grown(SHORT + 40_000).unwrap();
        assert!(grown(SHORT).unwrap().held().is_none(), "short ones are always taken");
        drop(second);
        let body = first.held().unwrap().by(Bytes::from_static(b"answer"));
        let copy = body.clone();
        assert_eq!(copy, "answer");
        drop(body);
        assert!(grown(SHORT + 60_000).is_err());
        drop(copy);
        assert!(grown(SHORT + 100_000).is_ok());
    }
}
