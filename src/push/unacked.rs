//! Packets that wait for their acknowledgement.
//!
//! A packet is sent once more when it isn't acknowledged in time, and then given up. A newer packet for the same
//! subscriber takes the place of an older one: sent again, the old one would overwrite the new. Pure: times come in
//! as arguments. Source: Nacos 1.4.8 naming module, push receiver; compat file `push`; that the newest replaces the
//! older ones, and the bounds, are ours.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use serde::Deserialize;
use smallvec::SmallVec;

use super::{payload::Packet, subscriber::Subscriber};
use crate::base::clock::Millis;

/// Milliseconds until a packet that nobody acknowledged is sent again.
pub const RESEND_AFTER_MS: u64 = 10_000;
/// Longest acknowledgement that is read, in bytes; those of the clients have less than 100.
pub const MOST_ACK_BYTES: usize = 1_024;

/// An address and the `lastRefTime` of a packet that went there.
pub type Key = (SocketAddr, u64);

/// Reads an acknowledgement: the `lastRefTime` of the packet that it is for, as a number or as a text.
///
/// Nothing where it is no acknowledgement.
#[must_use]
pub fn read_ack(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Ack<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        last_ref_time: &'a serde_json::value::RawValue,
    }
    if bytes.len() > MOST_ACK_BYTES {
        return None;
    }
    let ack: Ack<'_> = serde_json::from_slice(bytes).ok()?;
    let number = ack.last_ref_time.get().trim_matches('"');
    if ack.kind == "push-ack" { number.parse().ok() } else { None }
}

/// A packet that isn't acknowledged yet.
#[derive(Debug)]
struct Waiting {
    packet: Arc<Packet>,
    /// Whom it went to; more than one where several subscribers of an address get the same list.
    subscribers: SmallVec<[Arc<Subscriber>; 1]>,
    sent_at: Millis,
    due: Millis,
    resent: bool,
}

/// What became of a packet that was to wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// It waits.
    Yes,
    /// It waits, and an older one for the same subscriber doesn't any more.
    InPlaceOfAnOlder,
    /// There are too many: it won't be sent again.
    No,
}

/// What is to be done about packets whose time is over.
#[derive(Debug, Default)]
pub struct Overdue {
    /// To be sent again.
    pub resend: Vec<(SocketAddr, Arc<Packet>)>,
    /// How many were given up.
    pub given_up: usize,
}

/// All packets that wait, and those that failed last.
#[derive(Debug)]
pub struct Unacked {
    waiting: HashMap<Key, Waiting>,
    /// When to look at which again, soonest first; entries of what is acknowledged are skipped.
    order: VecDeque<(Millis, Key)>,
    /// How many wait; a packet counts once for each subscriber.
    count: usize,
    most: usize,
    most_bytes: usize,
    failed: u64,
    last_failed: VecDeque<Arc<Packet>>,
}

/// Of the packets that failed, this many are kept for [`Unacked::packets`].
const LAST_FAILED: usize = 100;

impl Unacked {
    /// Nothing waits. At most `most` packets do at a time; none is kept while all packets of the process have more
    /// than `most_bytes`.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            count: 0,
            most,
            most_bytes,
            failed: 0,
            last_failed: VecDeque::new(),
        }
    }

    /// How many packets wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many failed since [`Unacked::forget_failed`].
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Forgets the packets that failed; those that wait go on waiting.
    pub fn forget_failed(&mut self) {
        self.failed = 0;
        self.last_failed.clear();
    }

    /// The packets that wait, and those that failed last.
    pub fn packets(&self) -> impl Iterator<Item = &Arc<Packet>> {
        self.waiting.values().map(|waiting| &waiting.packet).chain(&self.last_failed)
    }

    /// Notes that `packet` was sent to `subscriber` at `address`.
    pub fn put(
        &mut self,
        subscriber: &Arc<Subscriber>,
        address: SocketAddr,
        packet: &Arc<Packet>,
        now: Millis,
    ) -> Kept {
        let older = subscriber.newest_packet.swap(packet.number(), Ordering::AcqRel);
        let replaced = older != packet.number() && self.withdraw(subscriber, (address, older));
        if self.count >= self.most || packet.bytes_of_all() > self.most_bytes {
            return Kept::No;
        }
        let due = now.plus(RESEND_AFTER_MS);
        let key = (address, packet.number());
        let waiting = self.waiting.entry(key).or_insert_with(|| {
            self.order.push_back((due, key));
            Waiting {
                packet: Arc::clone(packet),
                subscribers: SmallVec::new(),
                sent_at: now,
                due,
                resent: false,
            }
        });
        waiting.subscribers.push(Arc::clone(subscriber));
        self.count += 1;
        self.compact();
        if replaced { Kept::InPlaceOfAnOlder } else { Kept::Yes }
    }

    /// Takes a packet of `subscriber` back, which has failed.
    fn withdraw(&mut self, subscriber: &Arc<Subscriber>, key: Key) -> bool {
        let Some(waiting) = self.waiting.get_mut(&key) else { return false };
        let Some(at) = waiting.subscribers.iter().position(|other| Arc::ptr_eq(other, subscriber)) else {
            return false;
        };
        waiting.subscribers.remove(at);
        self.count -= 1;
        let packet = Arc::clone(&waiting.packet);
        if waiting.subscribers.is_empty() {
            self.waiting.remove(&key);
        }
        self.fail(packet, 1);
        true
    }

    fn fail(&mut self, packet: Arc<Packet>, count: usize) {
        self.failed += count as u64;
        if self.last_failed.len() == LAST_FAILED {
            self.last_failed.pop_front();
        }
        self.last_failed.push_back(packet);
    }

    /// Keeps the order no longer than about twice what waits.
    fn compact(&mut self) {
        if self.order.len() > 2 * self.waiting.len() + 1_024 {
            let waiting = &self.waiting;
            self.order.retain(|(due, key)| waiting.get(key).is_some_and(|waiting| waiting.due == *due));
        }
    }

    /// Notes an acknowledgement; gives the milliseconds since its packet was sent first, or nothing where no packet
    /// of this number waits for one from this address.
    pub fn ack(&mut self, from: SocketAddr, number: u64, now: Millis) -> Option<u64> {
        let key = (from, number);
        let waiting = self.waiting.get_mut(&key)?;
        let took_ms = now.since(waiting.sent_at);
        waiting.subscribers.pop();
        self.count -= 1;
        if waiting.subscribers.is_empty() {
            self.waiting.remove(&key);
        }
        Some(took_ms)
    }

    /// When [`Unacked::take_overdue`] has something to do again, at the earliest.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        self.order.front().map(|(due, _)| *due)
    }

    /// Takes at most `most` packets whose time is over: to be sent again the first time, given up the second.
    pub fn take_overdue(&mut self, now: Millis, most: usize) -> Overdue {
        let mut overdue = Overdue::default();
        while overdue.resend.len() + overdue.given_up < most
            && let Some((due, key)) = self.order.front().copied()
            && due <= now
        {
            self.order.pop_front();
            let Some(waiting) = self.waiting.get_mut(&key).filter(|waiting| waiting.due == due) else {
                continue;
            };
            let newest =
                |subscriber: &Arc<Subscriber>| subscriber.newest_packet.load(Ordering::Acquire) == key.1;
            if waiting.resent || !waiting.subscribers.iter().any(newest) {
                let count = waiting.subscribers.len();
                let packet = Arc::clone(&waiting.packet);
                self.waiting.remove(&key);
                self.count -= count;
                self.fail(packet, count);
                overdue.given_up += count;
                continue;
            }
            waiting.resent = true;
            waiting.due = now.plus(RESEND_AFTER_MS);
            self.order.push_back((waiting.due, key));
            for _ in &waiting.subscribers {
                overdue.resend.push((key.0, Arc::clone(&waiting.packet)));
            }
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::registry::Place,
        push::{
            payload::Gauge,
            subscriber::{Asked, Details, Host, Target},
            subscribers::Subscribers,
        },
    };

    struct Fixture {
        subscribers: Subscribers,
        unacked: Unacked,
        gauge: Gauge,
    }

    impl Fixture {
        fn new(most: usize) -> Self {
            Self {
                subscribers: Subscribers::new(100, 30_000),
                unacked: Unacked::new(most, 1_000),
                gauge: Gauge::default(),
            }
        }

        fn subscriber(&self, port: u16, agent: &str) -> (Arc<Subscriber>, SocketAddr) {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let place = Place { namespace: "public", name: "G@@a" };
            let asked = Asked { place, clusters: "", host: Host::Ip(address.ip()), port, agent };
            let details =
                Details { target: Target::Address(address), grouped: true, app: "", caller: address.ip() };
            (self.subscribers.add(&asked, details, Millis(0)).unwrap(), address)
        }

        fn packet(&self, number: u64) -> Arc<Packet> {
            Packet::new(vec![b'x'; 100], number, &self.gauge)
        }
    }

    fn at(ms: u64) -> Millis {
        Millis(ms)
    }

    #[test]
    fn acks_are_read_with_the_number_as_text_and_as_number() {
        let of = |text: &str| read_ack(text.as_bytes());
        assert_eq!(
            of(r#"{"type": "push-ack", "lastRefTime":"1719926760930", "data":""}"#),
            Some(1_719_926_760_930)
        );
        assert_eq!(of(r#"{"data":"","lastRefTime":"17","type":"push-ack"}"#), Some(17));
        assert_eq!(of(r#"{"type":"push-ack","lastRefTime":17,"data":""}"#), Some(17));
        for garbage in [
            "",
            "not json",
            "{}",
            "[]",
            "null",
            "17",
            r#"{"type":"push-ack"}"#,
            r#"{"type":"push-ack","lastRefTime":"-1"}"#,
            r#"{"type":"push-ack","lastRefTime":1.5}"#,
            r#"{"type":"push-ack","lastRefTime":[17]}"#,
            r#"{"type":"push-ack","lastRefTime":99999999999999999999}"#,
            r#"{"type":"dom","lastRefTime":17}"#,
            r#"{"type":{},"lastRefTime":17}"#,
        ] {
            assert_eq!(of(garbage), None, "{garbage}");
        }
        assert_eq!(read_ack(&[0xff; 40]), None);
        let long =
            format!(r#"{{"type":"push-ack","lastRefTime":17,"data":"{}"}}"#, "x".repeat(MOST_ACK_BYTES));
        assert_eq!(of(&long), None);
    }

    #[test]
    fn without_an_ack_a_packet_is_sent_once_more_and_then_fails() {
        let mut all = Fixture::new(10);
        let (subscriber, address) = all.subscriber(1, "a");
        let packet = all.packet(7);
        assert_eq!(all.unacked.put(&subscriber, address, &packet, at(0)), Kept::Yes);
        assert_eq!(all.unacked.next_due(), Some(at(10_000)));
        assert!(all.unacked.take_overdue(at(9_999), 10).resend.is_empty());
        let overdue = all.unacked.take_overdue(at(10_000), 10);
        assert_eq!((overdue.resend.len(), overdue.given_up), (1, 0));
        assert_eq!(overdue.resend[0].0, address);
        assert!(all.unacked.take_overdue(at(19_999), 10).resend.is_empty());
        let overdue = all.unacked.take_overdue(at(20_000), 10);
        assert_eq!((overdue.resend.len(), overdue.given_up), (0, 1));
        assert_eq!((all.unacked.len(), all.unacked.failed(), all.unacked.packets().count()), (0, 1, 1));
        all.unacked.forget_failed();
        assert_eq!((all.unacked.failed(), all.unacked.packets().count()), (0, 0));
    }

    #[test]
    fn an_ack_counts_from_the_right_address_with_the_right_number_once() {
        let mut all = Fixture::new(10);
        let (subscriber, address) = all.subscriber(1, "a");
        let packet = all.packet(7);
        all.unacked.put(&subscriber, address, &packet, at(0));
        let other = SocketAddr::from(([127, 0, 0, 2], 1));
        assert_eq!(all.unacked.ack(other, 7, at(3)), None);
        assert_eq!(all.unacked.ack(address, 8, at(3)), None);
        assert_eq!(all.unacked.ack(address, 7, at(3)), Some(3));
        assert_eq!(all.unacked.ack(address, 7, at(3)), None);
        assert!(all.unacked.take_overdue(at(10_000), 10).resend.is_empty());
        assert_eq!((all.unacked.len(), all.unacked.failed(), all.unacked.next_due()), (0, 0, None));
    }

    #[test]
    fn an_ack_after_the_resend_still_counts() {
        let mut all = Fixture::new(10);
        let (subscriber, address) = all.subscriber(1, "a");
        let packet = all.packet(7);
        all.unacked.put(&subscriber, address, &packet, at(0));
        all.unacked.take_overdue(at(10_000), 10);
        assert_eq!(all.unacked.ack(address, 7, at(10_001)), Some(10_001));
        assert_eq!(all.unacked.take_overdue(at(20_000), 10).given_up, 0);
    }

    #[test]
    fn two_subscribers_of_an_address_need_two_acks() {
        let mut all = Fixture::new(10);
        let (one, address) = all.subscriber(1, "a");
        let (two, _) = all.subscriber(1, "b");
        let packet = all.packet(7);
        all.unacked.put(&one, address, &packet, at(0));
        all.unacked.put(&two, address, &packet, at(0));
        assert_eq!(all.unacked.len(), 2);
        assert_eq!(all.unacked.ack(address, 7, at(1)), Some(1));
        let overdue = all.unacked.take_overdue(at(10_000), 10);
        assert_eq!(overdue.resend.len(), 1);
    }

    #[test]
    fn a_newer_packet_takes_the_place_of_an_older_one() {
        let mut all = Fixture::new(10);
        let (subscriber, address) = all.subscriber(1, "a");
        let (old, new) = (all.packet(7), all.packet(8));
        all.unacked.put(&subscriber, address, &old, at(0));
        assert_eq!(all.unacked.put(&subscriber, address, &new, at(5_000)), Kept::InPlaceOfAnOlder);
        assert_eq!((all.unacked.len(), all.unacked.failed()), (1, 1));
        assert!(all.unacked.take_overdue(at(10_000), 10).resend.is_empty());
        let overdue = all.unacked.take_overdue(at(15_000), 10);
        assert_eq!(overdue.resend.iter().map(|(_, packet)| packet.number()).collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn at_either_bound_a_packet_is_not_kept() {
        let mut all = Fixture::new(2);
        for port in 1..=2 {
            let (subscriber, address) = all.subscriber(port, "a");
            assert_eq!(all.unacked.put(&subscriber, address, &all.packet(u64::from(port)), at(0)), Kept::Yes);
        }
        let (subscriber, address) = all.subscriber(3, "a");
        assert_eq!(all.unacked.put(&subscriber, address, &all.packet(3), at(0)), Kept::No);

        let mut all = Fixture::new(100);
        let kept = (1..=20).filter(|&port| {
            let (subscriber, address) = all.subscriber(port, "a");
            all.unacked.put(&subscriber, address, &all.packet(u64::from(port)), at(0)) == Kept::Yes
        });
        assert_eq!(kept.count(), 10, "of 100 bytes each, of 1,000 at most");
    }

    #[test]
    fn what_is_overdue_is_taken_in_portions() {
        let mut all = Fixture::new(10);
        let packet = all.packet(7);
        for port in 1..=5 {
            let (subscriber, address) = all.subscriber(port, "a");
            all.unacked.put(&subscriber, address, &packet, at(0));
        }
        let portions: Vec<_> = (0..4).map(|_| all.unacked.take_overdue(at(10_000), 2).resend.len()).collect();
        assert_eq!(portions, [2, 2, 1, 0]);
    }

    #[test]
    fn the_order_does_not_outgrow_what_waits() {
        let mut all = Fixture::new(10);
        let (subscriber, address) = all.subscriber(1, "a");
        for number in 1..10_000 {
            let packet = all.packet(number);
            all.unacked.put(&subscriber, address, &packet, at(0));
            all.unacked.ack(address, number, at(0));
        }
        assert!(all.unacked.order.len() < 2_000, "{}", all.unacked.order.len());
    }
}
