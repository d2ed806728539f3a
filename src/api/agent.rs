//! Which client asks, as far as answers depend on it.
//!
//! Source: Nacos 1.4.8 naming module, client info from the `User-Agent`; compat file `instance-agents`.

use http::{HeaderMap, HeaderValue, header};

use super::reply::Refusal;
use crate::{config::PushAgent, model::switches::Switches};

/// A version of three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `1.0.12`, `v`-less: parts around `. - _ / ; :`, leading digits count, a missing third part is 0.
    ///
    /// A text of one part is no version.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '-', '_', '/', ';', ':']).map(leading_number);
        let first = parts.next()?;
        let second = parts.next()?;
        Some(Self(first, second, parts.next().unwrap_or(0)))
    }
}

fn leading_number(text: &str) -> u32 {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

/// The agent text of a request and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// `User-Agent`, or `Client-Version` where that is absent or empty.
    pub text: &'a str,
}

/// Begins the agent of the Java client.
const JAVA: &str = "Nacos-Java-Client";

impl<'a> Agent<'a> {
    /// Reads it from the headers.
    #[must_use]
    pub fn of(headers: &'a HeaderMap) -> Self {
        let text =
            |name: &header::HeaderName| headers.get(name).and_then(readable).filter(|text| !text.is_empty());
        let text = text(&header::USER_AGENT)
            .or_else(|| headers.get("client-version").and_then(readable))
            .unwrap_or_default();
        Self { text }
    }

    /// A peer server, by its own word.
    #[must_use]
    pub fn is_server(self) -> bool {
        self.text.starts_with("Nacos-Server")
    }

    /// What follows the first `:v`; 0.0.0 where there is none.
    ///
    /// # Errors
    /// 500 where what follows is of one part: the reference fails on it.
    pub fn version(self) -> Result<Version, Refusal> {
        match self.text.split_once(":v") {
            None => Ok(Version::default()),
            Some((_, version)) => Version::read(version).ok_or_else(|| {
                Refusal::failed(format_args!("the version of the agent can not be read: {version}"))
            }),
        }
    }

    /// A Java client from 1.0.0 on: it wants grouped names, and its PUT only updates.
    ///
    /// # Errors
    /// As [`Agent::version`], for agents of the Java client only.
    pub fn is_modern_java(self) -> Result<bool, Refusal> {
        Ok(self.text.starts_with(JAVA) && self.version()? >= Version(1, 0, 0))
    }

    /// Whether its name begins so and its version is at least this.
    #[must_use]
    pub fn is_at_least(self, name: &str, version: Version) -> bool {
        self.text.starts_with(name) && self.version().is_ok_and(|own| own >= version)
    }

    /// Whether it understands pushes: one of those that the switches know, or of `more`, from its version on.
    #[must_use]
    pub fn takes_pushes(self, switches: &Switches, more: &[PushAgent]) -> bool {
        let known = [
            (JAVA, &switches.push_java_version),
            ("Nacos-Go-Client", &switches.push_go_version),
            ("Nacos-DNS", &switches.push_python_version),
            ("Nacos-C-Client", &switches.push_c_version),
            ("vip-client4cpp", &switches.push_c_version),
            ("Nacos-CSharp-Client", &switches.push_csharp_version),
        ];
        let is_known = known.iter().any(|(name, version)| {
            self.text.starts_with(name) && self.is_at_least(name, Version::read(version).unwrap_or_default())
        });
        let minimum = |agent: &PushAgent| Version(agent.minimum[0], agent.minimum[1], agent.minimum[2]);
        is_known || more.iter().any(|agent| self.is_at_least(&agent.name, minimum(agent)))
    }
}

fn readable(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_leniently() {
        assert_eq!(Version::read("1.4.8"), Some(Version(1, 4, 8)));
        assert_eq!(Version::read("1.0"), Some(Version(1, 0, 0)));
        assert_eq!(Version::read("x.y.z"), Some(Version(0, 0, 0)));
        assert_eq!(Version::read("1.4.2-SNAPSHOT"), Some(Version(1, 4, 2)));
        assert_eq!(Version::read("1"), None);
        assert_eq!(Version::read(""), None);
    }

    #[test]
    fn pushes_go_to_known_agents_from_their_version_on() {
        let switches = Switches { push_go_version: "1.1.0".into(), ..Switches::default() };
        let more = [PushAgent { name: "My-Client".into(), minimum: [1, 2, 0] }];
        let takes = |text| Agent { text }.takes_pushes(&switches, &more);
        for pushed in [
            "Nacos-Java-Client:v1.4.8",
            "Nacos-Java-Client:v0.1.0",
            "Nacos-Go-Client:v1.1.0",
            "Nacos-DNS:v0.4.3",
            "Nacos-C-Client:v1.0.12",
            "vip-client4cpp:v1.0.12",
            "Nacos-CSharp-Client:v1.0.0",
            "My-Client:v1.2",
        ] {
            assert!(takes(pushed), "{pushed}");
        }
        for other in [
            "",
            "Nacos-Java-Client",
            "Nacos-Java-Client:v1",
            "nacos-java-client:v1.4.2",
            "Nacos-Java-Client:v0.0.1",
            "Nacos-Go-Client:v1.0.9",
            "Nacos-DNS:v0.4.2",
            "Nacos-C-Client:v1.0.11",
            "Nacos-Python-Client:v1.0.0",
            "Nacos-Server:v1.4.8",
            "My-Client:v1.1.9",
        ] {
            assert!(!takes(other), "{other}");
        }
    }

    #[test]
    fn the_java_client_is_modern_from_1_0_0_on() {
        let modern = |text| Agent { text }.is_modern_java().map_err(|_| ());
        assert_eq!(modern("Nacos-Java-Client:v1.4.8"), Ok(true));
        assert_eq!(modern("Nacos-Java-Client:v0.9.1"), Ok(false));
        assert_eq!(modern("Nacos-Java-Client"), Ok(false));
        assert_eq!(modern("Nacos-Go-Client:v1.1.6"), Ok(false));
        assert_eq!(modern("Nacos-Java-Client:v1"), Err(()));
    }
}
