//! Which differences hang on time. No I/O.
//!
//! Where this machine or the answers were late, a right server may have gone on: a silent instance is unhealthy or gone, a push
//! has come or has two changes in it. Only what such a server could show by then may be tried again. Everything else (a
//! status, a missing field, another type, the order of keys) no time brings about, so it counts however late it was.

use crate::compare::Difference;
use crate::shown::{ABSENT, ORDER, kind};

/// Lists from which instances go by themselves, and subscribers.
const COME_AND_GO: [&str; 5] = ["hosts", "ips", "list", "instanceList", "subscribers"];

/// Fields that tell of health, or count instances.
const TURNING: [&str; 5] = ["healthy", "valid", "ipCount", "healthyInstanceCount", "triggerFlag"];

/// What a beat is answered with as long as its instance is there, and when it has gone.
const OF_BEATS: [&str; 2] = ["10200", "20404"];

/// Marks those of the differences in one body that hang on time. `pushed`: it came by itself, so it has what was so when it left.
pub fn mark(found: &mut [Difference], pushed: bool) {
    for one in found.iter_mut() {
        one.hangs_on_time = is_timely(one, pushed);
    }
    // A list without instances has another form, and a beat for nobody another answer.
    let emptied =
        |one: &Difference| one.hangs_on_time && is_list(&one.place) && one.got.starts_with("0 items");
    let filled =
        |one: &Difference| one.hangs_on_time && is_list(&one.place) && one.want.starts_with("0 items");
    let turned = |one: &Difference| one.hangs_on_time && name(&one.place) == "code";
    if found.iter().any(|one| one.hangs_on_time && name(&one.place) == "subscribers") {
        found.iter_mut().filter(|one| one.place == "body /count").for_each(|one| one.hangs_on_time = true);
    }
    if found.iter().any(|one| emptied(one) || filled(one) || turned(one)) {
        let beside = |one: &&mut Difference| path(&one.place).matches('/').count() <= 1;
        let absent = |one: &&mut Difference| [&one.want, &one.got].contains(&&ABSENT.to_owned());
        let order = |one: &&mut Difference| one.place.ends_with(ORDER);
        found
            .iter_mut()
            .filter(beside)
            .filter(|one| absent(one) || order(one))
            .for_each(|one| one.hangs_on_time = true);
    }
}

fn is_timely(one: &Difference, pushed: bool) -> bool {
    if [&one.want, &one.got].contains(&&ABSENT.to_owned()) || one.place.ends_with(ORDER) {
        return false;
    }
    if is_list(&one.place) {
        return [&one.want, &one.got].iter().all(|text| text.contains(" items: "));
    }
    let (want, got) = (kind(&one.want), kind(&one.got));
    if want != got || want.is_none() || one.want.starts_with('<') {
        return false;
    }
    let name = name(&one.place);
    let of_beat =
        name == "code" && [&one.want, &one.got].iter().all(|code| OF_BEATS.contains(&code.as_str()));
    let status = path(&one.place).contains("/ips/") && want == Some("a text"); // as in "10.0.0.1:80_true"
    of_beat || status || TURNING.contains(&name) || pushed && one.place.contains('/')
}

fn path(place: &str) -> &str {
    place.trim_end_matches(ORDER).trim_end()
}

fn name(place: &str) -> &str {
    path(place).rsplit('/').next().unwrap_or_default()
}

fn is_list(place: &str) -> bool {
    path(place).contains('/') && COME_AND_GO.contains(&name(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(pushed: bool, all: &[(&str, &str, &str)]) -> Vec<bool> {
        let mut found: Vec<Difference> =
            all.iter().map(|(place, want, got)| Difference::new(*place, want, got)).collect();
        mark(&mut found, pushed);
        found.iter().map(|one| one.hangs_on_time).collect()
    }

    fn is_timely(place: &str, want: &str, got: &str) -> bool {
        marked(false, &[(place, want, got)])[0]
    }

    #[test]
    fn health_and_presence_hang_on_time() {
        assert!(is_timely("body /hosts/0/healthy", "true", "false"));
        assert!(is_timely("body /hosts", "1 items: [{}]", "0 items: []"));
        assert!(is_timely("body /ips/0", "\"10.0.0.1:80_true\"", "\"10.0.0.1:80_false\""));
        assert!(is_timely("body /code", "10200", "20404"));
        assert!(is_timely("body /ipCount", "2", "1"));
    }

    #[test]
    fn forms_and_plain_values_do_not() {
        assert!(!is_timely("status", "200", "500"));
        assert!(!is_timely("media type", "text/plain", ""));
        assert!(!is_timely("body", "ok", "caused: x"));
        assert!(!is_timely("body /hosts/0/healthy", "true", "\"true\""));
        assert!(!is_timely("body /hosts/0/healthy", "true", "null"));
        assert!(!is_timely("body /hosts/0/healthy", "true", "(absent)"));
        assert!(!is_timely("body /hosts", "[]", "(absent)"));
        assert!(!is_timely("body /hosts", "[{\"ip\":\"a\"}]", "{}"));
        assert!(!is_timely("body /hosts/0/weight", "1.0", "2.0"));
        assert!(!is_timely("body /hosts/0 (order of keys)", "a,b", "b,a"));
        assert!(!is_timely("body /code", "10200", "200"));
    }

    #[test]
    fn a_push_has_the_values_of_its_moment_but_their_form_at_any() {
        let push = |place, want, got| marked(true, &[(place, want, got)])[0];
        assert!(push("body /data/hosts/0/weight", "1.0", "2.0"));
        assert!(!push("body /data/hosts/0/weight", "1.0", "\"1.0\""));
        assert!(!push("body /data/hosts/0/weight", "1.0", "(absent)"));
        assert!(!push("body /data/lastRefTime", "<a number>", "<a text>"));
        assert!(!push("compressed", "true", "false"));
        assert!(!push("body /data", "\"{\\\"a\\\":1}\"", "{\"a\":1}"));
    }

    #[test]
    fn what_the_last_instance_takes_with_it_hangs_on_time_and_nothing_else_does() {
        let found = [
            ("body /dom", "\"a\"", "(absent)"),
            ("body /hosts", "1 items: [{}]", "0 items: []"),
            ("body (order of keys)", "a,b", "b,a"),
            ("body /cacheMillis", "3000", "\"3000\""),
        ];
        assert_eq!(marked(false, &found), [true, true, true, false]);
        let found = [
            ("body /code", "10200", "20404"),
            ("body /lightBeatEnabled", "true", "(absent)"),
            ("status", "200", "201"),
        ];
        assert_eq!(marked(false, &found), [true, true, false]);
    }
}
