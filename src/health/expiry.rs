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

/// Whether it has been silent for longer than its time-out, whatever its health; a marked one never is, and none until
/// the `grace` of its service has ended.
#[must_use]
pub fn is_silent(instance: &Instance, now: Millis, grace: Millis) -> bool {
    !instance.marked && now > instance.last_beat().plus(instance.unhealthy_after_ms).max(grace)
}

/// Judges one instance at `now`; a silence as long as the time-out is still in time. Time does nothing to a marked one.
#[must_use]
pub fn judge(instance: &Instance, now: Millis, grace: Millis) -> Verdict {
    if instance.marked {
        return Verdict::Stays;
    }
    if now > instance.last_beat().plus(instance.delete_after_ms).max(grace) {
        Verdict::Gone
    } else if instance.healthy() && is_silent(instance, now, grace) {
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
        judge(&instance, Millis(1_000 + ms), Millis(0))
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
        assert_eq!(judge(&instance, Millis(1_000_000), Millis(0)), Verdict::Stays);
        assert!(!is_silent(&instance, Millis(1_000_000), Millis(0)));
    }

    #[test]
    fn metadata_sets_the_times_and_deletion_needs_no_ill_health() {
        assert_eq!(silent_for(1_001, "preserved.heart.beat.timeout=1000"), Verdict::Unhealthy);
        assert_eq!(silent_for(2_001, "preserved.ip.delete.timeout=2000"), Verdict::Gone);
        assert_eq!(silent_for(15_001, "preserved.heart.beat.timeout=soon"), Verdict::Unhealthy);
    }

    #[test]
    fn nobody_is_judged_before_the_grace_ends() {
        let instance =
            Instance::new(Description::new("10.0.0.1", 80, "DEFAULT"), InstanceId::Simple, Millis(0));
        let at = |now| judge(&instance, Millis(now), Millis(100_000));
        assert_eq!((at(100_000), at(100_001)), (Verdict::Stays, Verdict::Gone));
        assert!(!is_silent(&instance, Millis(100_000), Millis(100_000)));
    }
}
