//! Takes what peers tell into the registry: by instance where the peer stamps its data, as a whole list where it doesn't.
//!
//! Merging is commutative, associative and idempotent: whatever the order and however often news come, those who have
//! heard the same have the same. Two things are decided by time instead, and settle when nodes compare: an instance that
//! nobody has heard of for too long isn't taken anew, and one that is said to be silent stays where a beat is known.

use std::{
    cmp::Ordering,
    sync::{Arc, atomic::Ordering as Atomic},
};

use super::{
    Entry, Extent, Instance, InstanceKey, Place, Registry,
    entry::{Shown, newer, record},
    gone::{Cause, Gone},
    instance::{InstanceId, LATE_MS, Mark},
    key::compare,
    name::NameError,
    service::Draft,
};
use crate::base::{
    clock::Millis,
    mutant::{self, Mutant},
};

/// Of an age below this nobody but the owner can tell whether it is that, in milliseconds; tombstones last much longer.
const ROUGHLY_MS: u64 = 20_000;

/// How long a beat and the news of it may be under way together, in milliseconds: each as long as its sender waits.
const NEWS_MS: u64 = 6_000;

/// What merging did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The list looks different now; subscribers are told.
    pub changed: bool,
    /// We know something newer than was told, or instances that what claims to be complete lacks: the teller should hear
    /// of it.
    pub ours_is_newer: bool,
    /// The lowest stamp of what was taken, where that is no higher than what was known of the service before: a peer that
    /// has later stamps may lack it all the same.
    pub belated: Option<u64>,
    /// Something that was said to be silent was written anew, since a beat of it is known here: peers are told.
    pub refuted: bool,
    /// Why something of it was left out; the rest counts.
    pub refused: Option<NameError>,
}

/// What taking the list of a 1.x peer did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// The list looks different now; subscribers are told.
    pub changed: bool,
    /// Where the list only added: ours isn't the peer's.
    pub ours_differs: bool,
    /// Why an instance was left out; the others count.
    pub refused: Option<NameError>,
}

/// Who judges the silence of a service's instances, as far as whoever merges news of them knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// This node: it is the owner, and has been for so long that all that live have beaten here. What is told of and has
    /// been silent for too long is removed for all, since whoever has it waits for that.
    Here,
    /// Whoever tells: it is the owner. What it has is taken, however long it has been silent, and goes when the owner says
    /// so.
    Teller,
    /// Another, or nobody yet: what has been silent for too long isn't taken anew.
    Another,
    /// Nobody yet, and who tells has judged without hearing of others: the same, and what it removed for its silence stays
    /// here for now. When others that know of beats have had the time to say so, it comes up again as nodes compare.
    Nobody,
}

impl Registry {
    /// Merges what a Nacre member tells of a service, which is made where something of it is to be remembered.
    ///
    /// `extent`: of which instances these are all that the member knows. Nothing new makes no revision; everything new makes one.
    ///
    /// # Errors
    /// [`NameError`] of the service; nothing is taken then.
    pub fn merge(
        &self,
        place: Place<'_>,
        mut entries: Vec<Entry>,
        extent: &Extent,
        judge: Judge,
        now: Millis,
    ) -> Result<Merged, NameError> {
        entries.sort_by(|one, other| compare(&one.key(), &other.key()));
        if let Some(highest) = entries.iter().map(Entry::stamp).max() {
            self.follow_stamp(highest, now);
        }
        loop {
            let service = match self.get(place) {
                Some(service) => service,
                None if !entries.iter().any(|entry| self.is_worth_a_service(entry, judge, now)) => {
                    return Ok(Merged::default());
                }
                None => self.get_or_make_told(place, now)?,
            };
            let written = self.write(&service, now, |draft| {
                let before = draft.highest_stamp;
                let merging =
                    Merging { registry: self, draft, judge, now, before, merged: Merged::default() };
                merging.run(std::mem::take(&mut entries), extent)
            });
            // Where it was removed meanwhile, nothing has been taken out of `entries`.
            if let Ok(merged) = written {
                return Ok(merged);
            }
        }
    }

    fn is_worth_a_service(&self, entry: &Entry, judge: Judge, now: Millis) -> bool {
        match entry {
            Entry::Alive(instance) => {
                !matches!(judge, Judge::Another | Judge::Nobody) || !self.is_too_old(instance, now)
            }
            Entry::Gone(_) => self.shared,
        }
    }

    /// Whether it would only be taken to be removed for its silence. Who tells of it may know its last beat but roughly, as
    /// copies do, so one with short time-outs is given what everybody can tell.
    fn is_too_old(&self, instance: &Instance, now: Millis) -> bool {
        instance.is_overdue(now)
            && now.since(instance.last_beat()) > ROUGHLY_MS
            && self.expires.load(Atomic::Relaxed)
    }

    /// Takes the list of a 1.x member, which knows no stamps, for what it is; makes the service where needed. A known instance
    /// keeps its health, unless it is marked.
    ///
    /// # Errors
    /// [`NameError`] of the service; nothing is taken then.
    pub fn replace_by_legacy(
        &self,
        place: Place<'_>,
        list: &[Instance],
        taken_for: ListFor,
        now: Millis,
    ) -> Result<Replaced, NameError> {
        loop {
            let service = self.get_or_make_told(place, now)?;
            let written = self.write(&service, now, |draft| {
                let mut taking = Taking { registry: self, draft, now, replaced: Replaced::default() };
                match taken_for {
                    ListFor::Whole => taking.take_all(list),
                    ListFor::Latest => taking.take_latest(list),
                    ListFor::Copy => taking.take_additions(list, Additions::Copies),
                    ListFor::Hearsay => taking.take_additions(list, Additions::Hearsay),
                    ListFor::News => taking.take_additions(list, Additions::News),
                    ListFor::Beats => taking.take_additions(list, Additions::None),
                }
                taking.replaced.changed = taking.draft.touched.list();
                taking.replaced
            });
            if let Ok(replaced) = written {
                return Ok(replaced);
            }
        }
    }

    /// Checks an instance of a peer and makes its cluster.
    fn admit(&self, draft: &mut Draft, instance: &Instance) -> Result<(), NameError> {
        self.limits.check_instance(&instance.description())?;
        if let InstanceId::Given(id) = &instance.id {
            self.limits.check_id(id)?;
        }
        self.make_cluster(draft, instance.cluster())
    }
}

/// One merge under way.
struct Merging<'a> {
    registry: &'a Registry,
    draft: &'a mut Draft,
    judge: Judge,
    now: Millis,
    /// The highest stamp before.
    before: u64,
    merged: Merged,
}

impl Merging<'_> {
    /// Merges entries that are sorted by their keys.
    fn run(mut self, entries: Vec<Entry>, extent: &Extent) -> Merged {
        let highest = entries.iter().map(Entry::stamp).max().unwrap_or(0);
        // What is written anew is newer than all that was told.
        self.draft.raise_stamp(highest);
        if *extent != Extent::News {
            if mutant::is(Mutant::AbsenceRemoves) {
                self.remove_absent(&entries, extent);
            }
            self.merged.ours_is_newer = self.lacks_ours(&entries, extent);
        }
        for entry in entries {
            match entry {
                Entry::Alive(instance) => self.take(instance),
                Entry::Gone(gone) => self.bury(gone),
            }
        }
        self.merged.changed = self.draft.touched.list();
        self.merged
    }

    /// The fault of [`Mutant::AbsenceRemoves`].
    #[cold]
    fn remove_absent(&mut self, entries: &[Entry], extent: &Extent) {
        for ours in extent.among(&self.draft.ephemeral().clone()) {
            if !entries.iter().any(|entry| compare(&entry.key(), &ours.key()).is_eq()) {
                let stamp = self.draft.own_stamp();
                self.draft.bury(Gone::of(&ours.key(), stamp, self.now, Cause::Left));
            }
        }
    }

    /// Whether an instance is here of which sorted `entries`, which are all of their extent, say nothing. One that has been silent for too long counts, too,
    /// unless it is about to go from here: its owner must hear of it to remove it for all.
    fn lacks_ours(&self, entries: &[Entry], extent: &Extent) -> bool {
        let mut entries = entries.iter().peekable();
        extent.among(self.draft.ephemeral()).any(|ours| {
            while entries.next_if(|entry| compare(&entry.key(), &ours.key()) == Ordering::Less).is_some() {}
            let told = entries.peek().is_some_and(|entry| compare(&entry.key(), &ours.key()).is_eq());
            let is_about_to_go = || self.judge == Judge::Here && self.registry.is_too_old(ours, self.now);
            !told && !is_about_to_go()
        })
    }

    fn take(&mut self, mut told: Instance) {
        told.ephemeral = true;
        if told.last_beat() > self.now {
            told.beat(self.now);
        }
        let key = told.key();
        if let Some(known) = self.draft.ephemeral().get(&key).cloned() {
            let mark = known.mark();
            // Of one that beat later than was known here, and is late all the same, its owner won't say so again.
            if known.hear_beat(told.last_beat()) && self.now.since(told.last_beat()) <= LATE_MS {
                known.set_late(false);
            }
            match newer(&Shown::Alive(&told, told.mark()), &Shown::Alive(&known, mark)) {
                Ordering::Less if mutant::is(Mutant::StaleOverwrite) => self.put(told),
                Ordering::Less => self.merged.ours_is_newer = true,
                Ordering::Equal => {}
                Ordering::Greater if record(&told, told.healthy()) == record(&known, mark.healthy) => {
                    self.takes(told.stamp());
                    self.draft.restamp(&known, &told);
                }
                Ordering::Greater => self.put(told),
            }
            return;
        }
        let gone = self.draft.gone.get(&key).filter(|_| !mutant::is(Mutant::TombstoneLoses));
        // Whoever knows of the removal and of a beat since has written the instance anew; what doesn't know of it is older,
        // however young it looks. While this node loads it may hear of both before they hear of each other.
        let knows = |gone: &Gone| self.judge == Judge::Teller || told.stamp() > gone.stamp;
        let refutes = |gone: &Gone| knows(gone) && is_contradicted(gone, &told, self.now);
        let ends = |gone: &Gone| {
            newer(&Shown::Gone(gone), &Shown::Alive(&told, told.mark())).is_gt() && !refutes(gone)
        };
        if gone.is_some_and(ends) {
            self.merged.ours_is_newer = true;
        } else if self.judge == Judge::Teller || !self.registry.is_too_old(&told, self.now) {
            self.put(told);
        } else if self.judge == Judge::Here {
            let (stamp, cause) = (self.draft.local_stamp(), Cause::Silent { last_beat: told.last_beat() });
            let gone = Gone::of(&key, stamp, self.now, cause).of_writing(told.written());
            self.draft.bury(gone);
        }
    }

    fn put(&mut self, told: Instance) {
        match self.registry.admit(self.draft, &told) {
            Ok(()) => {
                self.takes(told.stamp());
                self.draft.put_stamped(told);
            }
            Err(error) => self.merged.refused = Some(error),
        }
    }

    fn bury(&mut self, told: Gone) {
        let key = told.key();
        if let Some(known) = self.draft.ephemeral().get(&key).cloned() {
            let mark = known.mark();
            if newer(&Shown::Gone(&told), &Shown::Alive(&known, mark)).is_lt() {
                self.merged.ours_is_newer = true;
            } else if is_contradicted(&told, &known, self.now) {
                // Told anew, and still of the writing that it is: where that is older than what was removed it is better than
                // none, and whoever has the later one keeps it.
                let stamp = self.draft.local_stamp();
                self.draft.mark(&known, Mark { stamp, ..mark });
                self.merged.refuted = true;
            } else if told.has_left() || self.judge != Judge::Nobody {
                self.takes(told.stamp);
                self.draft.bury(told);
            }
            return;
        }
        match self.draft.gone.get(&key).map(|known| newer(&Shown::Gone(&told), &Shown::Gone(known))) {
            Some(Ordering::Less) => self.merged.ours_is_newer = true,
            Some(Ordering::Equal) => {}
            Some(Ordering::Greater) | None => {
                self.takes(told.stamp);
                self.draft.bury(told);
            }
        }
    }

    fn takes(&mut self, stamp: u64) {
        if stamp <= self.before {
            self.merged.belated = Some(self.merged.belated.map_or(stamp, |lowest| lowest.min(stamp)));
        }
    }
}

/// Whether it has beaten since it is said to have gone: later than whoever removed it for its silence knew of, or after
/// somebody else removed it, which then was an earlier life of it, whatever the clocks of those who wrote that show. What a
/// copy knows of beats is younger than the truth by as much as the news took, which says nothing.
fn is_contradicted(told: &Gone, known: &Instance, now: Millis) -> bool {
    let last_known = match told.cause {
        Cause::Silent { last_beat } => last_beat,
        Cause::Left | Cause::Missing => told.at,
    };
    known.last_beat() > last_known.plus(NEWS_MS)
        && !known.is_renewed()
        && !known.is_doubted()
        && known.stamp() != OLDEST_STAMP
        && !known.is_overdue(now)
        && !mutant::is(Mutant::SilenceUnrefuted)
}

/// For so long what a Nacre member writes may be on its way to an owner of 1.x that answers, in milliseconds.
const UNDER_WAY_MS: u64 = 6_000;

/// Of what is known by copies without stamps alone.
const OLDEST_STAMP: u64 = 1;

/// What the list of a 1.x member is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFor {
    /// All that there is, by the owner: it takes the place of what is here, and what it lacks has left.
    Whole,
    /// What another has, while this node loads: what is new in it is taken under the lowest stamp, unless it went here since its last
    /// beat. Beats stand there by the clock of another, and in a copy they are as old as the copy: what looks silent may live, and
    /// gets its whole time anew.
    Copy,
    /// What the owner has, while this node loads: all that there is, but for what was written a moment ago, which may be on its way to
    /// the owner yet.
    Latest,
    /// What another has, while this node loads and has what the owner has: news of beats, and nothing else.
    Beats,
    /// What another has of what isn't this node's, or the owner had when it was asked: what is new in it is taken under the lowest
    /// stamp, unless it went here since its last beat or has been silent for too long.
    Hearsay,
    /// What this node, which is the owner, may not know yet: likewise, but under a stamp that is newer than all, and peers are told.
    News,
}

/// What becomes of what a list has and this node doesn't.
#[derive(Clone, Copy)]
enum Additions {
    None,
    News,
    Hearsay,
    Copies,
}

/// One list of a 1.x member under way.
struct Taking<'a> {
    registry: &'a Registry,
    draft: &'a mut Draft,
    now: Millis,
    replaced: Replaced,
}

impl Taking<'_> {
    fn take_all(&mut self, list: &[Instance]) {
        self.bury_untold(list, |_| true, |draft, _| draft.own_stamp());
        for told in list {
            match self.draft.ephemeral().get(&told.key()).cloned() {
                Some(known) => self.renew(&known, told, Draft::own_stamp),
                None => self.put(told.copy(), Draft::own_stamp),
            }
        }
    }

    /// Members of 1.x keep no trace of what has gone, and others may have told what the owner doesn't have any more. What comes of it
    /// is newer than what it takes the place of, and old enough that the owner's next word in the same load counts, too.
    fn take_latest(&mut self, list: &[Instance]) {
        let since = self.draft.least_stamp().saturating_sub(UNDER_WAY_MS);
        let is_old = |known: &Instance| known.stamp() < since;
        self.bury_untold(list, is_old, |_, known| known.stamp() + 1);
        for told in list {
            let key = told.key();
            let known = self.draft.ephemeral().get(&key).cloned();
            if let Some(known) = known.filter(|known| is_old(known)) {
                let newer = if known.stamp() == OLDEST_STAMP { OLDEST_STAMP } else { known.stamp() + 1 };
                self.renew(&known, told, |_| newer);
            } else if self.draft.gone.get(&key).is_some_and(|gone| gone.stamp <= since) {
                self.draft.gone.remove(&key);
            }
        }
        self.take_additions(list, Additions::Copies);
    }

    /// What of this is here and not in the list has left.
    fn bury_untold(
        &mut self,
        list: &[Instance],
        is_to_go: impl Fn(&Instance) -> bool,
        stamp: impl Fn(&mut Draft, &Instance) -> u64,
    ) {
        let mut told: Vec<InstanceKey<'_>> = list.iter().map(Instance::key).collect();
        told.sort_by(compare);
        let before = self.draft.ephemeral().clone();
        for known in before.iter().filter(|known| is_to_go(known)) {
            let key = known.key();
            if told.binary_search_by(|told| compare(told, &key)).is_err() {
                let stamp = stamp(self.draft, known);
                self.draft.bury(Gone::of(&key, stamp, self.now, Cause::Missing));
            }
        }
    }

    /// Gives a known instance the description of the list.
    fn renew(&mut self, known: &Arc<Instance>, told: &Instance, stamp: impl FnOnce(&mut Draft) -> u64) {
        let healthy = if told.marked { told.healthy() } else { known.healthy() };
        if record(told, healthy) == record(known, known.healthy()) {
            known.hear_beat(told.last_beat());
            return;
        }
        let mut new = told.copy();
        new.set_healthy(healthy);
        new.hear_beat(known.last_beat());
        self.put(new, stamp);
    }

    fn take_additions(&mut self, list: &[Instance], additions: Additions) {
        for told in list {
            if let Some(known) = self.draft.ephemeral().get(&told.key()) {
                known.hear_beat(told.last_beat());
                continue;
            }
            let went_since = self.draft.gone.get(&told.key()).is_some_and(|gone| gone.at >= told.last_beat());
            if went_since {
                continue;
            }
            let (new, is_too_old) = (told.copy(), self.registry.is_too_old(told, self.now));
            match additions {
                Additions::None => {}
                Additions::News | Additions::Hearsay if is_too_old => {}
                Additions::News => self.put(new, Draft::local_stamp),
                Additions::Hearsay => self.put(new, |_| OLDEST_STAMP),
                Additions::Copies => {
                    if is_too_old {
                        // Nobody has heard of that beat.
                        new.beat(self.now);
                        new.set_renewed();
                    }
                    self.put(new, |_| OLDEST_STAMP);
                }
            }
        }
        self.replaced.ours_differs = self.differs(list);
    }

    /// Whether `list` shows anything else than is here now.
    fn differs(&self, list: &[Instance]) -> bool {
        let ours = self.draft.ephemeral();
        let same = |told: &Instance| {
            ours.get(&told.key())
                .is_some_and(|known| record(known, known.healthy()) == record(told, told.healthy()))
        };
        ours.len() != list.len() || !list.iter().all(same)
    }

    fn put(&mut self, mut told: Instance, stamp: impl FnOnce(&mut Draft) -> u64) {
        match self.registry.admit(self.draft, &told) {
            Ok(()) => {
                told.set_stamp(stamp(self.draft));
                self.draft.put_stamped(told);
            }
            Err(error) => self.replaced.refused = Some(error),
        }
    }
}
