//! What a trial with wrong servers came to, as a table. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::draw::Shown;
use super::mutants::{Tried, line};
use crate::between::{Kind, Place};

/// Of a hundred wrong servers as many must be found.
const ENOUGH: usize = 95;

/// The table, and whether enough was found and the right clients were named.
pub fn table(shown: &Shown, tried: &[Tried], took: Duration) -> (String, bool) {
    let mut out = String::new();
    let seen = || shown.values().flatten();
    let places: BTreeSet<(&Kind, &Place)> =
        seen().flat_map(|(kind, (_, places))| places.iter().map(move |place| (kind, place))).collect();
    let entries: BTreeSet<&str> = seen().map(|(kind, _)| &*kind.entry).collect();
    let _ = writeln!(out, "drawn from {} places in the answers of {} entries", places.len(), entries.len());
    for one in tried.iter().filter(|one| !one.found()) {
        let _ = writeln!(out, "{}", line(one));
    }
    for one in tried.iter().filter(|one| one.found() && !one.unnamed().is_empty()) {
        let missing: Vec<&str> = one.unnamed().iter().map(|client| client.title()).collect();
        let _ = writeln!(out, "{}: found, but not named: {}", one.mutant.change, missing.join(", "));
    }
    let groups = |name: &dyn Fn(&Tried) -> String| {
        let mut sums: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for one in tried {
            let sum = sums.entry(name(one)).or_default();
            sum.0 += usize::from(one.found());
            sum.1 += 1;
        }
        sums
    };
    let mut sums = |title: &str, name: &dyn Fn(&Tried) -> String| {
        let _ = writeln!(out, "{title:54} tried found");
        for (name, (found, all)) in groups(name) {
            let _ = writeln!(out, "  {name:52} {all:5} {found:5}");
        }
    };
    sums("by change", &|one| one.mutant.change.how.group().to_owned());
    sums("by field", &|one| match one.mutant.change.place.name() {
        name @ ("checksum" | "metadata") => name.to_owned(),
        _ => "any other".to_owned(),
    });
    sums("by family", &|one| one.mutant.family.clone());
    sums("by entry", &|one| one.mutant.change.kind.entry.clone());
    let found = tried.iter().filter(|one| one.found()).count();
    let excused = tried.iter().filter(|one| one.excuse().is_some()).count();
    let visible = tried.len() - excused;
    let hurting: Vec<&Tried> = tried.iter().filter(|one| one.hurts()).collect();
    let named = hurting.iter().filter(|one| one.found() && one.unnamed().is_empty()).count();
    // Where nothing was tried nothing is shown.
    let good = visible > 0 && found * 100 >= visible * ENOUGH && named == hurting.len();
    let percent = (found * 1000 / visible.max(1)) as f64 / 10.0;
    let _ = writeln!(
        out,
        "{found} of {visible} that can be seen found ({percent} %), each by its family; {excused} can't be, by rule; of {} that are known to hurt clients, {named} named all of them; {} s",
        hurting.len(),
        took.as_secs()
    );
    (out, good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::between::{Change, How};
    use crate::facts::Client;
    use crate::trial::draw::Mutant;

    fn tried(field: &str, how: How, failed: &[&str], clients: &[Client]) -> Tried {
        let kind = Kind::of("GET", "/v1/ns/instance/list", "", 200);
        let place = Place::Field(vec![field.to_owned()]);
        let mutant = Mutant { change: Change { kind, place, how }, family: "instance list".to_owned() };
        let failed = failed.iter().map(|id| (*id).to_owned()).collect();
        Tried { mutant, met: 1, failed, clients: clients.iter().copied().collect() }
    }

    fn is_good(tried: &[Tried]) -> bool {
        table(&Shown::new(), tried, Duration::ZERO).1
    }

    #[test]
    fn one_of_twenty_may_be_missed_but_not_two_nor_a_client() {
        let some = |missed: usize| -> Vec<Tried> {
            let failed = |at: usize| if at < missed { &[][..] } else { &["list/a"][..] };
            (0..20).map(|at| tried("dom", How::Dropped, failed(at), &[])).collect()
        };
        assert!(is_good(&some(0)) && is_good(&some(1)));
        assert!(!is_good(&some(2)));
        assert!(!is_good(&[]), "nothing was tried");
        let list = |clients| [tried("clusters", How::Dropped, &["list/a"], clients)];
        assert!(is_good(&list(&[Client::Node, Client::Go])));
        assert!(!is_good(&list(&[Client::Go])), "Node breaks without it");
    }
}
