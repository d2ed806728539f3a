//! How often a case is played, and what that comes to. No I/O.

use crate::finding::{Fate, joined, without_time};

/// As often a case is played whose difference may come from time that was lost.
const TRIES: usize = 3;

/// What is said of one in which it was lost every time.
pub const TOO_LATE: &str =
    "answers or this machine were so late, three times, that its times couldn't be judged";

/// What came of a case, tried until time tells nothing any more: a try gives what came of it, and whether time was lost that it
/// counts on. A difference that hangs on time needs a try in which none was; any other holds from the first try that had it.
pub fn settled(mut attempt: impl FnMut() -> (Fate, bool)) -> Fate {
    let mut kept = Vec::new();
    for _ in 0..TRIES {
        let (fate, late) = attempt();
        match fate {
            Fate::Differs(steps) if late => kept = joined(kept, without_time(&steps)),
            Fate::Excused { steps, .. } if late && without_time(&steps).is_empty() => {}
            Fate::Differs(steps) => return Fate::Differs(joined(kept, steps)),
            Fate::Broke { step, sent, why, before } => {
                let before = if late { without_time(&before) } else { before };
                return Fate::Broke { step, sent, why, before: joined(kept, before) };
            }
            other if kept.is_empty() => return other,
            _ => break,
        }
    }
    if kept.is_empty() { Fate::NotPlayed(TOO_LATE) } else { Fate::Differs(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Difference;
    use crate::replay::StepDifference;

    fn differs(differences: &[Difference]) -> Fate {
        Fate::Differs(vec![StepDifference {
            step: 0,
            sent: "GET /".to_owned(),
            differences: differences.to_vec(),
            want: String::new(),
            got: String::new(),
            refused: false,
        }])
    }

    /// What is made of tries that went so, and how many were needed.
    fn settle(tries: Vec<(Fate, bool)>) -> (Fate, usize) {
        let mut tries = tries.into_iter();
        let (all, fate) = (tries.len(), settled(|| tries.next().unwrap()));
        (fate, all - tries.len())
    }

    fn places(fate: &Fate) -> Vec<&str> {
        let differences = fate.steps().iter().flat_map(|step| &step.differences);
        differences.map(|one| &*one.place).collect()
    }

    fn status() -> Difference {
        Difference::new("status", &200, &500)
    }

    fn health() -> Difference {
        Difference::new("body /hosts/0/healthy", &true, &false).of_time()
    }

    #[test]
    fn what_hangs_on_time_is_tried_again_where_time_was_lost_and_set_aside_in_the_end() {
        let late = || (differs(&[health()]), true);
        let (fate, tries) = settle(vec![late(), late(), late()]);
        assert!(matches!(fate, Fate::NotPlayed(TOO_LATE)) && tries == 3, "{fate:?}");
        let (fate, tries) = settle(vec![late(), (Fate::Same, true)]);
        assert!(matches!(fate, Fate::Same) && tries == 2, "{fate:?}");
        let (fate, _) = settle(vec![late(), (differs(&[health()]), false)]);
        assert_eq!(places(&fate), ["body /hosts/0/healthy"]);
    }

    #[test]
    fn what_no_time_brings_about_counts_however_late_it_was_and_for_good() {
        let both = || (differs(&[health(), status()]), true);
        let (fate, _) = settle(vec![both(), both(), both()]);
        assert!(fate.failed() && places(&fate) == ["status"], "{fate:?}");
        for then in [(Fate::Same, false), (Fate::Same, true), (differs(&[health()]), true)] {
            let (fate, _) = settle(vec![both(), then.clone(), then]);
            assert!(fate.failed() && places(&fate) == ["status"], "{fate:?}");
        }
        let (fate, _) = settle(vec![both(), (differs(&[health()]), false)]);
        assert_eq!(places(&fate), ["status", "body /hosts/0/healthy"]);
    }

    #[test]
    fn no_answer_counts_at_once_with_what_was_wrong_before() {
        let before = differs(&[health(), status()]).steps().to_vec();
        let broke = Fate::Broke { step: 1, sent: String::new(), why: "closed".to_owned(), before };
        let (fate, tries) = settle(vec![(broke, true)]);
        assert!(matches!(fate, Fate::Broke { .. }) && tries == 1 && places(&fate) == ["status"], "{fate:?}");
    }
}
