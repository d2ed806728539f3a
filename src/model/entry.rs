//! What peers tell each other of one instance: that it is there, or that it is gone; and which of two such is newer.
//!
//! Pure. The one order of all that can be known of an instance is what makes merging independent of the order in which
//! news come: see [`newer`].

use std::cmp::Ordering;

use super::{
    Gone, Instance, InstanceKey, State,
    instance::{InstanceId, Mark},
};
use crate::base::{
    hash::{fnv, mix},
    java,
    mutant::{self, Mutant},
};

/// What a peer tells of one instance.
#[derive(Debug)]
pub enum Entry {
    /// It is there: with its stamp, its health, and its last beat on our clock.
    Alive(Instance),
    /// It is gone.
    Gone(Gone),
}

impl Entry {
    /// Which instance.
    #[must_use]
    pub fn key(&self) -> InstanceKey<'_> {
        match self {
            Self::Alive(instance) => instance.key(),
            Self::Gone(gone) => gone.key(),
        }
    }

    /// Of the write that this comes from.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        match self {
            Self::Alive(instance) => instance.stamp(),
            Self::Gone(gone) => gone.stamp,
        }
    }

    /// The same, borrowed.
    #[must_use]
    pub fn shown(&self) -> Shown<'_> {
        match self {
            Self::Alive(instance) => Shown::Alive(instance, instance.mark()),
            Self::Gone(gone) => Shown::Gone(gone),
        }
    }
}

/// What is known of one instance, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// It is there. Health and stamp were read together, those of the instance may have changed since.
    Alive(&'a Instance, Mark),
    /// It is gone.
    Gone(&'a Gone),
}

impl Shown<'_> {
    /// Which instance.
    #[must_use]
    pub fn key(&self) -> InstanceKey<'_> {
        match self {
            Self::Alive(instance, _) => instance.key(),
            Self::Gone(gone) => gone.key(),
        }
    }

    /// Of the write that this comes from.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        match self {
            Self::Alive(_, mark) => mark.stamp,
            Self::Gone(gone) => gone.stamp,
        }
    }

    /// Of the write that the description comes from, or that ended it.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self {
            Self::Alive(instance, mark) => instance.written_under(*mark),
            Self::Gone(gone) => gone.written,
        }
    }

    /// The same as a value of its own.
    #[must_use]
    pub fn to_entry(&self) -> Entry {
        match self {
            Self::Alive(instance, mark) => {
                let mut copy = instance.copy();
                copy.set_stamp(mark.stamp);
                copy.set_written(instance.written_under(*mark));
                copy.set_healthy(mark.healthy);
                Entry::Alive(copy)
            }
            Self::Gone(gone) => Entry::Gone((*gone).clone()),
        }
    }
}

/// How `one` and `other`, which speak of the same instance, compare: the greater one is the newer.
///
/// The one that was written later; of the same writing the higher stamp; of the same stamp what is gone, and of two that are gone the one that has left; of two that are
/// there the one whose record is the greater text.
#[must_use]
pub fn newer(one: &Shown<'_>, other: &Shown<'_>) -> Ordering {
    let by_stamp = (one.written(), one.stamp()).cmp(&(other.written(), other.stamp()));
    by_stamp.then_with(|| match (one, other) {
        (Shown::Gone(one), Shown::Gone(other)) => one.has_left().cmp(&other.has_left()),
        (Shown::Gone(_), Shown::Alive(..)) => Ordering::Greater,
        (Shown::Alive(..), Shown::Gone(_)) => Ordering::Less,
        (Shown::Alive(one, mark), Shown::Alive(other, other_mark)) => {
            record(one, mark.healthy).cmp(&record(other, other_mark.healthy))
        }
    })
}

/// What a record says besides its stamp and the time of the last beat, as it is after its way over the wire.
pub(super) fn record(instance: &Instance, healthy: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    push_record(&mut out, instance, healthy);
    out
}

fn push_record(out: &mut Vec<u8>, instance: &Instance, healthy: bool) {
    let id = match &instance.id {
        InstanceId::Simple => "s",
        InstanceId::Missing => "m",
        InstanceId::Given(id) => id,
    };
    // No app and the one that the wire shows for it are the same.
    let app = instance.app().unwrap_or(DEFAULT_APP);
    let given = matches!(instance.id, InstanceId::Given(_));
    for text in [instance.ip(), instance.cluster(), instance.metadata.json(), app, id] {
        out.extend_from_slice(text.as_bytes());
        // No UTF-8 has this byte, so no two lists of texts look alike.
        out.push(0xff);
    }
    out.extend_from_slice(&instance.port.to_be_bytes());
    out.extend_from_slice(java::double_text(instance.weight).as_bytes());
    out.extend([healthy, instance.enabled, instance.marked, given].map(u8::from));
}

/// The application of an instance that named none, as the wire shows it.
pub const DEFAULT_APP: &str = "DEFAULT";

impl State {
    /// What is known of the ephemeral instances and of those that are gone: all of it, or what has a higher stamp than
    /// `newer_than`. Whoever has merged that knows everything up to [`State::highest_stamp`].
    pub fn entries(&self, newer_than: Option<u64>) -> impl Iterator<Item = Shown<'_>> {
        let alive = self.ephemeral.iter().map(|instance| Shown::Alive(instance, instance.mark()));
        let all = alive.chain(self.gone.iter().map(Shown::Gone));
        all.filter(move |entry| newer_than.is_none_or(|stamp| entry.stamp() > stamp))
    }

    /// What two nodes compare to see whether they have the same ephemeral instances with the same records; 0 where there
    /// are none. Beats and tombstones have no part in it. Made by whoever asks first of a revision.
    #[must_use]
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut text = Vec::new();
            self.ephemeral.iter().fold(0, |digest: u64, instance| {
                let mark = instance.mark();
                if mutant::is(Mutant::ShallowDigest) {
                    return digest.wrapping_add(mix(fnv(instance.ip().bytes())));
                }
                text.clear();
                push_record(&mut text, instance, mark.healthy);
                text.extend_from_slice(&mark.stamp.to_be_bytes());
                // A sum doesn't ask for the order.
                digest.wrapping_add(mix(fnv(text.iter().copied())))
            })
        })
    }

    /// Another one for all that members tell each other of a service, tombstones included. Its highest stamp would not do:
    /// what two nodes write at the same moment comes in any order.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let gone = self.gone.iter().map(|gone| mix(gone.stamp));
        gone.fold(self.digest(), u64::wrapping_add)
    }
}
