//! How many requests a second an address may make, by their class: a bucket of tokens each.
//!
//! Pure: told of times, it says yes, or when to come back. A bucket holds the requests of one second, fills up evenly, and
//! a refused request takes nothing from it. An address of IPv6 is its network of 64 bits, since a host there has as many
//! addresses as it likes. At most [`MOST_ADDRESSES`] of a class are remembered; those that were seen longest ago are
//! forgotten first, which lets them in with a full bucket.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Addresses of a class that are remembered.
pub const MOST_ADDRESSES: usize = 100_000;

/// What a bucket holds: the requests of this time.
const FULL: Duration = Duration::from_secs(1);

/// What kind of work a request is; each has its own rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A beat: one per instance and 5 s.
    Beat,
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Beat, Self::Read, Self::Write];

    /// As metrics and logs spell it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Beat => "beat",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The buckets of one class.
#[derive(Debug)]
pub struct Buckets {
    /// From one request to the next of an address that makes as many as it may.
    pace: Duration,
    /// When the bucket of an address is full, by those that were seen lately.
    young: HashMap<u128, Instant>,
    /// The same of those that were seen before.
    old: HashMap<u128, Instant>,
    most: usize,
}

impl Buckets {
    /// For as many requests a second of an address; none where `per_second` is 0, which is no limit.
    #[must_use]
    pub fn new(per_second: u32) -> Option<Self> {
        Self::with_room(per_second, MOST_ADDRESSES)
    }

    /// The same, for as many addresses.
    fn with_room(per_second: u32, most: usize) -> Option<Self> {
        let pace = FULL.checked_div(per_second)?;
        Some(Self { pace, young: HashMap::new(), old: HashMap::new(), most })
    }

    /// Takes a token of this address.
    ///
    /// # Errors
    /// There is none; how long until there is one.
    pub fn take(&mut self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let key = key(address);
        let known = self.young.get(&key).or_else(|| self.old.get(&key));
        let full_at = known.map_or(now, |full_at| (*full_at).max(now)) + self.pace;
        let too_early = (full_at - now).saturating_sub(FULL);
        if !too_early.is_zero() {
            return Err(too_early);
        }
        if self.young.len() >= self.most / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, full_at);
        Ok(())
    }
}

/// What counts as one address.
fn key(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_a_second_is_no_limit() {
        assert!(Buckets::new(0).is_none());
    }

    #[test]
    fn a_second_of_requests_may_come_at_once_and_then_one_after_the_other() {
        let (mut buckets, now) = (Buckets::new(10).unwrap(), Instant::now());
        let caller = address("10.0.0.1");
        for _ in 0..10 {
            assert_eq!(buckets.take(caller, now), Ok(()));
        }
        assert_eq!(buckets.take(caller, now), Err(100 * MS));
        assert_eq!(buckets.take(caller, now + 99 * MS), Err(MS));
        assert_eq!(buckets.take(caller, now + 100 * MS), Ok(()));
        assert_eq!(buckets.take(caller, now + 100 * MS), Err(100 * MS));
    }

    #[test]
    fn who_keeps_to_the_rate_is_never_refused_and_who_does_not_gets_just_the_rate() {
        let (mut buckets, start) = (Buckets::new(7).unwrap(), Instant::now());
        let (even, greedy) = (address("10.0.0.1"), address("10.0.0.2"));
        let mut taken = 0;
        for ms in 0..10_000 {
            let now = start + ms * MS;
            if ms % 143 == 0 {
                assert_eq!(buckets.take(even, now), Ok(()));
            }
            taken += u32::from(buckets.take(greedy, now).is_ok());
        }
        assert_eq!(taken, 7 + 69);
    }

    #[test]
    fn addresses_do_not_share_but_those_of_a_network_of_ipv6_do() {
        let (mut buckets, now) = (Buckets::new(1).unwrap(), Instant::now());
        for (caller, taken) in [
            ("10.0.0.1", true),
            ("10.0.0.2", true),
            ("::ffff:10.0.0.2", false),
            ("fd00:0:0:1::1", true),
            ("fd00:0:0:1::2", false),
            ("fd00:0:0:2::1", true),
        ] {
            assert_eq!(buckets.take(address(caller), now).is_ok(), taken, "{caller}");
        }
    }

    #[test]
    fn no_more_addresses_are_remembered_than_there_is_room_for_and_the_latest_are() {
        let (mut buckets, now) = (Buckets::with_room(1, 100).unwrap(), Instant::now());
        for n in 0..10_000_u32 {
            let caller = IpAddr::from(n.to_be_bytes());
            assert_eq!(buckets.take(caller, now), Ok(()));
            assert!(buckets.young.len() + buckets.old.len() <= 100);
        }
        for n in 9_951..10_000_u32 {
            assert_eq!(buckets.take(IpAddr::from(n.to_be_bytes()), now), Err(Duration::from_secs(1)));
        }
    }
}
