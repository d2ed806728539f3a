//! When a silent instance is unhealthy, and when it is gone.
//!
//! Pure. Source: Nacos 1.4.8 naming module, beat check; compat file `beat-timing`.

use crate::{base::clock::Millis, model::Instance};

/// What the time says about an ephemeral instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing changes.
    Stays,
    /// Healthy until now, and silent for longer than its time-out.
    Unhealthy,
    /// Silent for longer than its delete time-out, whatever its health.
    Gone,
}

/// Whether it has been silent for longer than its time-out, whatever its health; a marked one never is.
#[must_use]
pub fn is_silent(instance: &Instance, now: Millis) -> bool {
    !instance.marked && now.since(instance.last_beat()) > instance.unhealthy_after_ms
}

/// Judges one instance at `now`; a silence as long as the time-out is still in time. Time does nothing to a marked one.
#[must_use]
pub fn judge(instance: &Instance, now: Millis) -> Verdict {
    if instance.marked {
        return Verdict::Stays;
    }
    let silence = now.since(instance.last_beat());
    if silence > instance.delete_after_ms {
        Verdict::Gone
    } else if instance.healthy() && is_silent(instance, now) {
        Verdict::Unhealthy
    } else {
        Verdict::Stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::instance::{Description, InstanceId};

    fn silent_for(ms: u64, metadata: &str) -> Verdict {
        let metadata = metadata.parse().unwrap();
        let description = Description { metadata, ..Description::new("10.0.0.1", 80, "DEFAULT") };
        let instance = Instance::new(description, InstanceId::Simple, Millis(1_000));
        judge(&instance, Millis(1_000 + ms))
    }

    #[test]
    fn silence_is_judged_strictly() {
        assert_eq!(silent_for(15_000, ""), Verdict::Stays);
        assert_eq!(silent_for(15_001, ""), Verdict::Unhealthy);
        assert_eq!(silent_for(30_000, ""), Verdict::Unhealthy);
        assert_eq!(silent_for(30_001, ""), Verdict::Gone);
    }

    #[test]
    fn a_marked_instance_stays_as_it_is() {
        let mut instance =
            Instance::new(Description::new("10.0.0.1", 80, "DEFAULT"), InstanceId::Simple, Millis(0));
        instance.marked = true;
        assert_eq!(judge(&instance, Millis(1_000_000)), Verdict::Stays);
        assert!(!is_silent(&instance, Millis(1_000_000)));
    }

    #[test]
    fn metadata_sets_the_times_and_deletion_needs_no_ill_health() {
        assert_eq!(silent_for(1_001, "preserved.heart.beat.timeout=1000"), Verdict::Unhealthy);
        assert_eq!(silent_for(2_001, "preserved.ip.delete.timeout=2000"), Verdict::Gone);
        assert_eq!(silent_for(15_001, "preserved.heart.beat.timeout=soon"), Verdict::Unhealthy);
    }
}
