//! The gauges that dashboards of Nacos 1.x read, under their own names.
//!
//! Source: Nacos 1.4.8, its metrics monitor; what only a config centre has stays 0.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

use super::readings::{PushReadings, Sizes};

/// Values of the family `nacos_monitor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NacosMonitor {
    /// What is registered.
    pub sizes: Sizes,
    /// Pushes.
    pub push: PushReadings,
}

impl NacosMonitor {
    #[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 are no matter to a dashboard")]
    fn naming(&self) -> [(&'static str, f64); 10] {
        let Sizes { services, ephemeral, persistent } = self.sizes;
        let PushReadings { events, ack_time, slowest_ack, .. } = self.push;
        let average = ack_time.as_millis().checked_div(u128::from(events.acked));
        let slowest = average.map(|_| slowest_ack.as_millis());
        // Milliseconds; before the first acknowledgement less than none.
        let cost = |ms: Option<u128>| ms.map_or(-1.0, |ms| ms as f64);
        [
            ("serviceCount", services as f64),
            ("ipCount", (ephemeral.instances + persistent.instances) as f64),
            ("totalPush", events.sent as f64),
            ("failedPush", events.failed as f64),
            ("avgPushCost", cost(average)),
            ("maxPushCost", cost(slowest)),
            ("tcpHealthCheck", 0.0),
            ("httpHealthCheck", 0.0),
            ("mysqlhealthCheck", 0.0),
            ("leaderStatus", 0.0),
        ]
    }
}

const CONFIG: [&str; 6] = ["longPolling", "configCount", "publish", "dumpTask", "notifyTask", "getConfig"];

impl Collector for NacosMonitor {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "As Nacos 1.x shows it";
        let mut family = encoder.encode_descriptor("nacos_monitor", help, None, MetricType::Gauge)?;
        let naming = self.naming().map(|(name, value)| ("naming", name, value));
        let config = CONFIG.map(|name| ("config", name, 0.0));
        for (module, name, value) in naming.into_iter().chain(config) {
            family.encode_family(&[("module", module), ("name", name)])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::{encoding::prometheus_text, registry::Registry};

    use super::*;
    use crate::observe::readings::{Kind, PushEvents};

    fn text(monitor: NacosMonitor) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(monitor));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        text
    }

    fn value(monitor: NacosMonitor, module: &str, name: &str) -> f64 {
        let series = format!(r#"nacos_monitor{{module="{module}",name="{name}"}} "#);
        let text = text(monitor);
        text.lines().find_map(|line| line.strip_prefix(&series)).expect(name).parse().unwrap()
    }

    #[test]
    fn the_family_has_the_names_of_the_reference() {
        let sizes = Sizes {
            services: 2,
            ephemeral: Kind { instances: 3, healthy: 1 },
            persistent: Kind { instances: 1, healthy: 0 },
        };
        let monitor = NacosMonitor { sizes, ..NacosMonitor::default() };
        assert!(text(monitor).starts_with("# HELP nacos_monitor "));
        assert!(text(monitor).contains("\n# TYPE nacos_monitor gauge\n"));
        assert_eq!(text(monitor).lines().filter(|line| line.starts_with("nacos_monitor{")).count(), 16);
        let shown = ["serviceCount", "ipCount", "avgPushCost", "maxPushCost"]
            .map(|name| value(monitor, "naming", name));
        assert_eq!(shown, [2.0, 4.0, -1.0, -1.0]);
        assert_eq!(value(monitor, "config", "longPolling"), 0.0);
    }

    #[test]
    fn pushes_have_a_cost_from_the_first_acknowledgement_on() {
        let push = PushReadings {
            events: PushEvents { sent: 5, acked: 2, failed: 1, ..PushEvents::default() },
            ack_time: Duration::from_millis(31),
            slowest_ack: Duration::from_millis(30),
            ..PushReadings::default()
        };
        let monitor = NacosMonitor { push, ..NacosMonitor::default() };
        let shown = ["totalPush", "failedPush", "avgPushCost", "maxPushCost"]
            .map(|name| value(monitor, "naming", name));
        assert_eq!(shown, [5.0, 1.0, 15.0, 30.0]);
    }
}
