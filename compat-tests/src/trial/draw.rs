//! Which wrong servers are tried: drawn by a seed from everything that was seen of a right one. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use crate::between::{Change, How, Kind, Place, Seen};
use crate::shuffle::shuffle;

/// As often every group of changes is tried, wrong checksums and lost metadata among them.
const OF_EACH_GROUP: usize = 5;

/// As often every entry is.
const OF_EACH_ENTRY: usize = 3;

/// A wrong server: what is wrong, and whose cases must find it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// What is wrong.
    pub change: Change,
    /// The family: that of the entry, or, where its cases never show the place, one whose cases do.
    pub family: String,
}

/// What the cases of each family show.
pub type Shown = BTreeMap<String, Seen>;

/// All that could be done to what is shown: each place of each kind of answer in each way that makes it another.
pub fn all(shown: &Shown) -> Vec<Mutant> {
    let mut families: BTreeMap<(&Kind, &Place), Vec<&str>> = BTreeMap::new();
    for (family, seen) in shown {
        for (kind, (_, places)) in seen {
            for place in places {
                families.entry((kind, place)).or_default().push(family);
            }
        }
    }
    let mut mutants = Vec::new();
    for ((kind, place), families) in families {
        let hows: &[How] = match place {
            Place::Status => &[How::Altered],
            Place::MediaType => &[How::Dropped, How::Altered],
            Place::Text | Place::Field(_) => &How::OF_PARTS,
        };
        let own = families.iter().find(|family| **family == kind.family());
        let family = own.or(families.first()).copied().unwrap_or_default();
        mutants.extend(hows.iter().map(|how| Mutant {
            change: Change { kind: kind.clone(), place: place.clone(), how: *how },
            family: family.to_owned(),
        }));
    }
    mutants
}

/// What is done to pushes as a whole.
pub fn pushes() -> impl Iterator<Item = Mutant> {
    How::OF_PUSHES.into_iter().map(|how| Mutant {
        change: Change { kind: Kind::push(), place: Place::Field(Vec::new()), how },
        family: Kind::push().family().to_owned(),
    })
}

/// Draws `count`: first what is done to pushes, wrong checksums and lost metadata, then for every entry, then any. With
/// so few that this isn't possible, some of each.
pub fn draw(shown: &Shown, count: usize, seed: u64) -> Vec<Mutant> {
    let mut pool = all(shown);
    shuffle(&mut pool, seed);
    let mut first: Vec<Mutant> = pushes().collect();
    shuffle(&mut first, seed);
    for name in ["checksum", "metadata"] {
        let named = pool.iter().filter(|mutant| mutant.change.place.name() == name);
        first.extend(named.take(OF_EACH_GROUP).cloned());
    }
    let mut by_entry: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in &pool {
        by_entry.entry(&mutant.change.kind.entry).or_default().push(mutant);
    }
    let mut each = Vec::new();
    for round in 0..OF_EACH_ENTRY {
        let mut some: Vec<Mutant> =
            by_entry.values().filter_map(|some| some.get(round).copied().cloned()).collect();
        shuffle(&mut some, seed.wrapping_add(round as u64));
        each.extend(some);
    }
    let enough = first.len() + each.len() <= count;
    let mut order = if enough { [first, each].concat() } else { mixed(first, each) };
    order.extend(pool.iter().cloned());
    let mut known = BTreeSet::new();
    order.into_iter().filter(|mutant| known.insert(mutant.clone())).take(count).collect()
}

/// One of the first for every nine of the others.
fn mixed(first: Vec<Mutant>, others: Vec<Mutant>) -> Vec<Mutant> {
    let mut first = first.into_iter();
    let mut out = Vec::new();
    for (at, other) in others.into_iter().enumerate() {
        if at.is_multiple_of(9) {
            out.extend(first.next());
        }
        out.push(other);
    }
    out.extend(first);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        let field = |name: &str| Place::Field(vec![name.to_owned()]);
        let places = BTreeSet::from([Place::Status, field("checksum"), field("metadata"), field("ip")]);
        let kind = |entry: &str| Kind { entry: entry.to_owned(), refused: false };
        let seen = (0..9).map(|at| (kind(&format!("GET /{at}")), (1, places.clone()))).collect();
        [("beat".to_owned(), seen)].into()
    }

    #[test]
    fn a_seed_repeats_a_draw_and_everything_is_hit_often_enough() {
        assert_eq!(draw(&shown(), 80, 3), draw(&shown(), 80, 3));
        assert_ne!(draw(&shown(), 80, 3), draw(&shown(), 80, 4));
        let drawn = draw(&shown(), 80, 3);
        assert_eq!(drawn.len(), 80);
        for at in 0..9 {
            let entry = format!("GET /{at}");
            let count = drawn.iter().filter(|mutant| mutant.change.kind.entry == entry).count();
            assert!(count >= OF_EACH_ENTRY);
        }
        let groups = drawn.iter().map(|mutant| mutant.change.how.group());
        let groups: Vec<&str> = groups.collect();
        for group in
            ["push late", "push lost", "push not sent again as it should", "dropped", "retyped", "altered"]
        {
            assert!(groups.iter().filter(|one| **one == group).count() >= OF_EACH_GROUP, "{group}");
        }
        let checksums = drawn.iter().filter(|mutant| mutant.change.place.name() == "checksum");
        assert!(checksums.count() >= OF_EACH_GROUP);
    }

    #[test]
    fn a_small_draw_has_some_of_everything() {
        let drawn = draw(&shown(), 20, 1);
        assert!(drawn.iter().any(|mutant| mutant.change.how.is_of_pushes()));
        let entries: BTreeSet<_> = drawn.iter().map(|mutant| &mutant.change.kind.entry).collect();
        assert!(entries.len() >= 9);
    }

    #[test]
    fn the_family_of_an_entry_comes_first_and_else_one_that_shows_the_place() {
        let kind = Kind::of("GET", "/v1/ns/catalog/service", "", 200);
        let place = |name: &str| Place::Field(vec![name.to_owned()]);
        let seen = |names: &[&str]| -> Seen {
            [(kind.clone(), (1, names.iter().map(|name| place(name)).collect()))].into()
        };
        let shown: Shown =
            [("beat".to_owned(), seen(&["a", "b"])), ("catalog".to_owned(), seen(&["a"]))].into();
        let family = |name: &str| {
            all(&shown).into_iter().find(|one| one.change.place == place(name)).map(|one| one.family)
        };
        assert_eq!((family("a").as_deref(), family("b").as_deref()), (Some("catalog"), Some("beat")));
    }
}
