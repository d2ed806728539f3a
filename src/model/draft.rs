//! The next revision of a service while a writer makes it.
//!
//! Pure. Everything ephemeral that is written goes through here and gets the stamp of its write: the only doors to the
//! ephemeral instances of a draft are methods that stamp.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Definition, Instance, InstanceKey, Instances, State,
    gone::{Cause, Gone, Tombstones},
    instance::{HIGHEST_STAMP, Mark},
};
use crate::base::{
    clock::Millis,
    mutant::{self, Mutant},
};

/// When a write is made, and how what it leaves is marked.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now.
    pub now: Millis,
    /// Stamps begin here: now on the wall clock, in milliseconds.
    pub least_stamp: u64,
    /// Whether what goes leaves a tombstone.
    pub keeps_gone: bool,
}

/// The next revision while it is being made.
#[derive(Debug)]
pub struct Draft {
    /// See [`State::definition`].
    pub definition: Arc<Definition>,
    /// See [`State::ephemeral`]; changes by [`Draft::put`] and [`Draft::remove`], which stamp them.
    pub(super) ephemeral: Instances,
    /// See [`State::persistent`].
    pub persistent: Instances,
    /// What the writer changed.
    pub touched: Touched,
    pub(super) gone: Tombstones,
    pub(super) highest_stamp: u64,
    moment: Moment,
    /// Of this write, once something needed it.
    stamp: Option<u64>,
    /// Instances and those that took their places; beats may come to the former until this is published.
    pub(super) replaced: SmallVec<[(Arc<Instance>, Arc<Instance>); 1]>,
}

/// What a write changed, and so what must be made anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// The set of instances or a description: new checksum, push.
    pub instances: bool,
    /// Health only: push; the checksum follows within 5 s.
    pub health: bool,
    /// The definition: new checksum, no push.
    pub definition: bool,
    /// Nothing but the checksum, which was behind.
    pub checksum: bool,
    /// Stamps and tombstones, which no list shows.
    pub stamps: bool,
    /// Something ephemeral was written here, not received.
    pub local: bool,
    /// Tombstones that had to be forgotten for those of this write.
    pub forgotten: usize,
    /// The highest stamp of the service then; 0 where nothing was touched.
    pub highest_stamp: u64,
}

impl Touched {
    /// Something that a subscriber would see.
    #[must_use]
    pub fn list(self) -> bool {
        self.instances || self.health
    }
}

impl Draft {
    pub(super) fn of(before: &State, moment: Moment) -> Self {
        Self {
            definition: Arc::clone(&before.definition),
            ephemeral: before.ephemeral.clone(),
            persistent: before.persistent.clone(),
            gone: before.gone.clone(),
            highest_stamp: before.highest_stamp,
            moment,
            stamp: None,
            touched: Touched::default(),
            replaced: SmallVec::new(),
        }
    }

    /// The instances of one kind.
    #[must_use]
    pub fn of_kind(&self, ephemeral: bool) -> &Instances {
        if ephemeral { &self.ephemeral } else { &self.persistent }
    }

    /// The ephemeral instances.
    #[must_use]
    pub fn ephemeral(&self) -> &Instances {
        &self.ephemeral
    }

    /// Puts an instance in the place of the one of its kind with its key; an ephemeral one gets the stamp of this write.
    pub fn put(&mut self, mut instance: Instance) {
        if instance.ephemeral {
            instance.set_stamp(self.local_stamp());
            self.put_stamped(instance);
        } else {
            self.put_as_it_is(instance);
        }
    }

    /// Removes an ephemeral instance, if it is there; where tombstones are kept, it leaves one in any case: a peer may
    /// know what isn't known here.
    pub fn remove(&mut self, key: &InstanceKey<'_>, cause: Cause) -> Option<Arc<Instance>> {
        let mut stamp =
            if self.moment.keeps_gone || self.ephemeral.contains(key) { self.local_stamp() } else { 0 };
        if mutant::is(Mutant::LeavesUnstamped) {
            stamp = self.ephemeral.get(key).map_or(stamp, |known| known.stamp());
        }
        let gone = Gone::of(key, stamp, self.moment.now, cause);
        let known = self.ephemeral.get(key).filter(|_| !gone.has_left());
        let written = known.map_or(stamp, |known| known.written());
        self.bury(gone.of_writing(written))
    }

    /// Puts an ephemeral instance with the stamp that it has in the place of the one with its key.
    pub(super) fn put_stamped(&mut self, instance: Instance) {
        self.note_stamp(instance.stamp());
        self.gone.remove(&instance.key());
        self.put_as_it_is(instance);
    }

    /// Gives an ephemeral instance that is there the stamps of `told`, which says the same of it: no list looks different.
    pub(super) fn restamp(&mut self, known: &Arc<Instance>, told: &Instance) {
        let mut instance = known.copy();
        instance.set_stamp(told.stamp());
        instance.set_written(told.written());
        self.note_stamp(instance.stamp());
        let instance = Arc::new(instance);
        self.ephemeral.insert(Arc::clone(&instance));
        instance.inherit_silence(known);
        self.replaced.push((Arc::clone(known), instance));
    }

    fn put_as_it_is(&mut self, instance: Instance) {
        let instance = Arc::new(instance);
        let instances = if instance.ephemeral { &mut self.ephemeral } else { &mut self.persistent };
        if let Some(before) = instances.insert(Arc::clone(&instance)) {
            instance.inherit_silence(&before);
            self.replaced.push((before, instance));
        }
        self.touched.instances = true;
    }

    /// Removes the instance that a tombstone speaks of, and keeps the tombstone where such are kept.
    pub(super) fn bury(&mut self, gone: Gone) -> Option<Arc<Instance>> {
        let removed = self.ephemeral.remove(&gone.key());
        self.touched.instances |= removed.is_some();
        if self.moment.keeps_gone && !mutant::is(Mutant::NoTombstones) {
            self.note_stamp(gone.stamp);
            self.gone.insert(gone);
        }
        removed
    }

    /// Marks an ephemeral instance that is there; beats and readers see it before this is published.
    pub(super) fn mark(&mut self, instance: &Instance, mark: Mark) {
        self.note_stamp(mark.stamp);
        instance.set_mark(mark);
    }

    /// From here on stamps of this write are higher than `stamp`, and it counts as known.
    pub(super) fn note_stamp(&mut self, stamp: u64) {
        self.touched.stamps = true;
        self.raise_stamp(stamp);
    }

    /// As [`Draft::note_stamp`], where it may turn out that nothing changes.
    pub(super) fn raise_stamp(&mut self, stamp: u64) {
        self.highest_stamp = self.highest_stamp.max(stamp);
    }

    /// The stamp of what is written here, and peers are to be told of; the same for all of one write.
    pub(super) fn local_stamp(&mut self) -> u64 {
        self.touched.local = true;
        self.own_stamp()
    }

    /// The stamp of what this write makes of received data that had none; the same for all of one write.
    pub(super) fn own_stamp(&mut self) -> u64 {
        if self.stamp.is_none() {
            self.stamp = Some(self.fresh_stamp());
        }
        self.touched.stamps = true;
        self.stamp.unwrap_or_default()
    }

    /// The time of this write, as stamps count it.
    pub(super) fn least_stamp(&self) -> u64 {
        self.moment.least_stamp
    }

    /// A stamp that nothing has had.
    fn fresh_stamp(&mut self) -> u64 {
        if mutant::is(Mutant::StampsByClockAlone) {
            return self.moment.least_stamp.min(HIGHEST_STAMP);
        }
        self.highest_stamp = (self.highest_stamp + 1).max(self.moment.least_stamp).min(HIGHEST_STAMP);
        self.highest_stamp
    }

    /// Sets the health of an instance that is there, before this is published. Together with it goes another stamp.
    pub(super) fn set_health(&mut self, instance: &Instance, healthy: bool, received: bool) {
        let stamp = match instance.ephemeral {
            true if mutant::is(Mutant::HealthWithoutStamp) => instance.stamp(),
            true if received => self.own_stamp(),
            true => self.local_stamp(),
            false => instance.stamp(),
        };
        instance.set_mark(Mark { stamp, healthy });
    }

    /// Gives an instance its former health again. Somebody may have seen the other one, so it isn't the former stamp.
    pub(super) fn take_back_health(&mut self, instance: &Instance, healthy: bool) {
        let stamp = if instance.ephemeral { self.fresh_stamp() } else { instance.stamp() };
        instance.set_mark(Mark { stamp, healthy });
    }

    /// The definition, to be changed.
    pub fn define(&mut self) -> &mut Definition {
        self.touched.definition = true;
        Arc::make_mut(&mut self.definition)
    }
}
