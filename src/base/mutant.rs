//! Planted faults, each of which the simulation must find: whoever weakens it hears of it.
//!
//! Behind the feature `mutants`, which no build that ships has: without it [`is`] is false where the code is compiled,
//! and nothing is left of it.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $name,)+
        }

        /// All of them.
        pub const ALL: &[Mutant] = &[$(Mutant::$name,)+];
    };
}

mutants! {
    /// What a member tells takes the place of what is newer here.
    StaleOverwrite,
    /// What a complete datum lacks is removed.
    AbsenceRemoves,
    /// Who isn't listed any more is still sent changes.
    EndlessRetry,
    /// A new owner judges at once, by what it was told alone.
    LostGrace,
    /// Several requests to one peer are under way.
    NoOrder,
    /// A removed instance leaves no tombstone.
    NoTombstones,
    /// Older news of an instance undo its tombstone.
    TombstoneLoses,
    /// What comparing finds to differ isn't looked at.
    VerifyFindsNothing,
    /// The digest covers keys alone.
    ShallowDigest,
    /// A node has loaded when the first peer has answered.
    LoadsFromFirst,
    /// An owner asks nobody before it judges.
    JudgesUnasked,
    /// What a member that can't be reached should know isn't handed on.
    HandsOnNothing,
    /// A node that stood still goes on where it was.
    StandstillUnnoticed,
    /// Another health comes under the same stamp.
    HealthWithoutStamp,
    /// A member that is away isn't told later what happened meanwhile.
    ForgetsTheAbsent,
    /// Stamps are the wall clock's, whatever was seen before.
    StampsByClockAlone,
    /// A report makes its sender an owner, though it can't be reached.
    ReportsMakeOwners,
    /// Nobody is told who is late.
    LatenessUntold,
    /// Who removes an instance gives the tombstone no stamp of its own.
    LeavesUnstamped,
    /// A tombstone of silence isn't refuted by a younger beat.
    SilenceUnrefuted,
    /// A request that failed isn't repeated.
    NoRetry,
    /// A member that doesn't answer stays an owner.
    NobodyGoesDown,
    /// Whoever missed news of silence takes those that weren't named for living.
    MissedNewsUnnoticed,
    /// A node that was removed and is a member again serves with what it knew then.
    ReturnsUnloaded,
    /// Stamps are of the own clock, however far that of a member is ahead.
    StampsUnfollowed,
    /// Who passes a beat on forgets it.
    BeatsUnheard,
    /// A node that is a member again remembers what it was told of itself before.
    OldWordsCount,
}

#[cfg(feature = "mutants")]
mod planted {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Runs `action` with this fault in all nodes of the thread.
    pub fn with<T>(mutant: Option<Mutant>, action: impl FnOnce() -> T) -> T {
        PLANTED.set(mutant);
        let result = action();
        PLANTED.set(None);
        result
    }

    /// Whether this fault is planted in this thread.
    #[must_use]
    pub fn is(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use planted::{is, with};

/// Whether this fault is planted: it isn't.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is(_: Mutant) -> bool {
    false
}
