//! The gauges that dashboards of Nacos 1.x read, under their own names.
//!
//! Source: Nacos 1.4.8, its metrics monitor; what only a config centre has stays 0.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

use super::metrics::{Kind, Sizes};

/// Values of the family `nacos_monitor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NacosMonitor {
    /// What is registered.
    pub sizes: Sizes,
    /// Pushes that were sent.
    pub total_push: u64,
    /// Pushes that were given up.
    pub failed_push: u64,
    /// Milliseconds from a push to its acknowledgement, on average; nothing before the first.
    pub avg_push_cost_ms: Option<u64>,
    /// The longest of them.
    pub max_push_cost_ms: Option<u64>,
}

impl NacosMonitor {
    #[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 are no matter to a dashboard")]
    fn naming(&self) -> [(&'static str, f64); 10] {
        let Sizes { services, ephemeral: Kind { instances, .. }, persistent } = self.sizes;
        let cost = |cost: Option<u64>| cost.map_or(-1.0, |cost| cost as f64);
        [
            ("serviceCount", services as f64),
            ("ipCount", (instances + persistent.instances) as f64),
            ("totalPush", self.total_push as f64),
            ("failedPush", self.failed_push as f64),
            ("avgPushCost", cost(self.avg_push_cost_ms)),
            ("maxPushCost", cost(self.max_push_cost_ms)),
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
    use prometheus_client::{encoding::prometheus_text, registry::Registry};

    use super::*;

    fn text(monitor: NacosMonitor) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(monitor));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn the_family_has_the_names_of_the_reference() {
        let sizes = Sizes {
            services: 2,
            ephemeral: Kind { instances: 3, healthy: 1 },
            persistent: Kind { instances: 1, healthy: 0 },
        };
        let text = text(NacosMonitor { sizes, total_push: 5, ..NacosMonitor::default() });
        for line in [
            "# TYPE nacos_monitor gauge",
            r#"nacos_monitor{module="naming",name="serviceCount"} 2.0"#,
            r#"nacos_monitor{module="naming",name="ipCount"} 4.0"#,
            r#"nacos_monitor{module="naming",name="totalPush"} 5.0"#,
            r#"nacos_monitor{module="naming",name="avgPushCost"} -1.0"#,
            r#"nacos_monitor{module="config",name="longPolling"} 0.0"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("nacos_monitor{")).count(), 16);
    }
}
